/* What one is writing, kept per conversation in this tab, over a sign-in and a failed sending. */

const nameOf = (field) => `kaizen.draft.${field.dataset.draft}`;

export function keepDraft(field) {
  try {
    if (field.value) sessionStorage.setItem(nameOf(field), field.value);
    else sessionStorage.removeItem(nameOf(field));
  } catch {
    // Storage is forbidden or full: the text still stands in the field.
  }
}

export function restoreDraft(field) {
  try {
    if (!field.value) field.value = sessionStorage.getItem(nameOf(field)) ?? "";
  } catch {
    // Storage is forbidden.
  }
}

export function forgetDraft(name) {
  try {
    sessionStorage.removeItem(`kaizen.draft.${name}`);
  } catch {
    // Storage is forbidden.
  }
}

/** A key that makes a repeated sending the same message. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Let a text field grow with its text where CSS alone can't. */
export function growWith(field) {
  if (CSS.supports("field-sizing", "content")) return;
  const grow = () => {
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  };
  field.addEventListener("input", grow);
  grow();
}

/** Whether this key press means "send": Enter alone, on a real keyboard, outside a word being composed. */
export function meansSend(event) {
  return event.key === "Enter" && !event.shiftKey && !event.altKey && !event.isComposing
    && (event.ctrlKey || event.metaKey || !matchMedia("(pointer: coarse)").matches);
}
