/* A conversation: the composer, the line to the server, and what to say when that line is lost.
   What was written is never lost: it stays in the field until the server has taken it. */
import { forgetDraft, growWith, keepDraft, meansSend, newKey, restoreDraft } from "./drafts.js";
import { refreshRail } from "./rail.js";
import { openPanel } from "./sides.js";
import { Socket } from "./socket.js";
import { Thread } from "./stream.js";
import { say, word } from "./words.js";

const QUIET_MS = 2_000;
const ACCEPT_MS = 20_000;

class Chat {
  constructor(element) {
    this.element = element;
    // A reader who may not write has no composer; the rest is the same.
    this.form = document.getElementById("composer") ?? document.createElement("form");
    this.field = this.form.elements.text ?? document.createElement("textarea");
    this.run = element.dataset.run || null;
    this.sent = new Map();
    this.thread = new Thread(document.getElementById("thread"), {
      onRun: (run) => this.showRun(run),
      onTitle: (title) => this.showTitle(title),
    });
    this.listen();
    restoreDraft(this.field);
    growWith(this.field);
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
    else this.thread.scrollToEnd();
    this.socket = new Socket({
      path: element.dataset.ws,
      after: Number(element.dataset.after),
      onFrame: (frame) => this.take(frame),
      onState: (state) => this.showLine(state),
    });
  }

  listen() {
    this.field.addEventListener("input", () => { keepDraft(this.field); this.complain(""); });
    this.field.addEventListener("keydown", (event) => {
      if (!meansSend(event)) return;
      event.preventDefault();
      this.send();
    });
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-act]");
      if (button) this.act(button);
    });
  }

  act(button) {
    const answer = button.closest(".is-answer");
    switch (button.dataset.act) {
      case "stop":
        if (this.run && !this.socket.send({ type: "stop", run: this.run })) this.complain(word("not-connected"));
        break;
      case "retry":
        if (!this.socket.send({ type: "retry", run: answer.dataset.run, key: newKey() })) {
          this.complain(word("not-connected"));
        }
        break;
      case "to-end":
        this.thread.scrollToEnd();
        break;
      case "sources":
        this.showSources(answer);
        break;
      case "copy":
        this.copy(answer, button);
        break;
    }
  }

  send() {
    const text = this.field.value;
    if (!text.trim() || this.run) return;
    const key = newKey();
    if (!this.socket.send({ type: "send", text, key })) {
      this.complain(word("not-connected"));
      return;
    }
    this.sent.set(key, { text, timer: setTimeout(() => this.giveBack(key, word("not-sent")), ACCEPT_MS) });
    this.thread.addPending(key, text);
    this.setField("");
    this.complain("");
  }

  take(frame) {
    if (this.thread.take(frame)) return;
    if (frame.type === "accepted" && this.sent.has(frame.key)) {
      this.settle(frame.key);
      this.thread.confirmPending(frame.key, frame.message);
      refreshRail();
    } else if (frame.type === "refused") {
      if (this.sent.has(frame.key)) this.giveBack(frame.key, frame.message);
      else this.complain(frame.message);
    }
  }

  settle(key) {
    clearTimeout(this.sent.get(key).timer);
    this.sent.delete(key);
    if (!this.field.value) forgetDraft(this.field.dataset.draft);
  }

  /** What could not be sent comes back into the field, before anything written since. */
  giveBack(key, why) {
    const { text } = this.sent.get(key);
    this.settle(key);
    this.thread.dropPending(key);
    this.setField([text, this.field.value].filter(Boolean).join("\n\n"));
    keepDraft(this.field);
    this.complain(why);
  }

  setField(text) {
    this.field.value = text;
    this.field.dispatchEvent(new Event("input"));
    if (!text) for (const key of this.sent.keys()) this.keepUnsent(key);
  }

  /** Until the server has it, the text stays in this tab's store too. */
  keepUnsent(key) {
    const copy = this.field.cloneNode();
    copy.value = this.sent.get(key).text;
    keepDraft(copy);
  }

  complain(text) {
    const place = this.form.querySelector("[data-wrong]");
    if (!place) return;
    place.textContent = text;
    place.hidden = !text;
  }

  showRun(run) {
    this.run = run;
    if (!this.form.isConnected) return;
    const stop = this.form.querySelector("[data-act=stop]");
    const send = this.form.querySelector("[data-send]");
    const focusWasOnButton = document.activeElement === stop || document.activeElement === send;
    stop.hidden = !run;
    send.hidden = Boolean(run);
    if (focusWasOnButton) this.field.focus();
    if (!run) refreshRail();
  }

  showTitle(title) {
    for (const place of document.querySelectorAll("[data-title]")) place.textContent = title;
    document.title = document.title.replace(/^[^·]*(?= · )/, title);
    refreshRail();
  }

  showLine(state) {
    clearTimeout(this.quiet);
    const banner = document.getElementById("connection");
    if (state === "open") return;
    if (state === "current") {
      banner.hidden = true;
      for (const [key, { text }] of this.sent) this.socket.send({ type: "send", text, key });
      return;
    }
    if (state === "lost") {
      if (banner.hidden) this.quiet = setTimeout(() => this.showBanner(word("reconnecting"), false), QUIET_MS);
      return;
    }
    for (const key of [...this.sent.keys()]) this.giveBack(key, "");
    this.showBanner(word(state), true);
    if (state === "signed-out") {
      const link = banner.querySelector("[data-sign-in]");
      link.href = `/login/?next=${encodeURIComponent(location.pathname)}`;
      link.textContent = word("sign-in");
      link.hidden = false;
    }
  }

  showBanner(text, isFinal) {
    const banner = document.getElementById("connection");
    banner.querySelector("[data-text]").textContent = text;
    banner.classList.toggle("bad", isFinal);
    banner.hidden = false;
    say(text);
  }

  showSources(answer) {
    const content = document.createElement("div");
    content.append(...[...answer.querySelector(".answer-sources").children].map((node) => node.cloneNode(true)));
    openPanel({ title: answer.querySelector("[data-act=sources]").textContent.trim(), content });
  }

  async copy(answer, button) {
    if (!navigator.clipboard) return; // Only over https or on this machine.
    const label = button.querySelector("[data-copy-text]");
    const before = label.textContent;
    await navigator.clipboard.writeText(answer.querySelector(".answer-body").innerText);
    label.textContent = word("copied");
    say(word("copied"));
    setTimeout(() => { label.textContent = before; }, 2_000);
  }
}

export function startChat() {
  const element = document.getElementById("chat");
  if (element) new Chat(element);
}
