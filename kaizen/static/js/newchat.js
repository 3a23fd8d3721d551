/* The first message of a chat: an ordinary form. Here: Enter sends, a double press sends once, the text is kept. */
import { forgetDraft, growWith, keepDraft, meansSend, newKey, restoreDraft } from "./drafts.js";

export function startNewChat() {
  const form = document.querySelector("[data-new-chat]");
  if (!form) {
    // The chat it led to is open: the draft has become a message.
    if (document.querySelector("#chat .message")) forgetDraft("new");
    return;
  }
  const field = form.elements.text;
  const button = form.querySelector("button[type=submit]");
  restoreDraft(field);
  growWith(field);
  field.addEventListener("input", () => {
    keepDraft(field);
    form.elements.key.value = ""; // Another text is another message.
  });
  field.addEventListener("keydown", (event) => {
    if (!meansSend(event)) return;
    event.preventDefault();
    form.requestSubmit(button);
  });
  form.addEventListener("submit", (event) => {
    if (!field.value.trim()) {
      event.preventDefault();
      field.focus();
      return;
    }
    keepDraft(field);
    form.elements.key.value ||= newKey();
    // After the submission was taken up, so that the button's state doesn't cancel it.
    setTimeout(() => { button.disabled = true; });
  });
  addEventListener("pageshow", (event) => {
    button.disabled = false;
    if (event.persisted) form.elements.key.value = "";
  });
}
