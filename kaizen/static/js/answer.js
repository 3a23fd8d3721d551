/* One answer on the page: its living line and steps, its text block by block, and how it ended. */
import { copyOf, say, word } from "./words.js";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);
/** Block element -> the HTML it was given; the browser's own serialisation may differ. */
const given = new WeakMap();

export class Answer {
  constructor(element) {
    this.element = element;
    this.body = element.querySelector(".answer-body");
    this.living = element.querySelector(".living");
    this.steps = element.querySelector(".steps");
  }

  static make(message, run) {
    const element = copyOf("answer-template");
    element.id = `m-${message}`;
    element.dataset.message = message;
    element.dataset.run = run ?? "";
    return new Answer(element);
  }

  get hasEnded() {
    return ENDED.has(this.element.dataset.state);
  }

  /** Say what is happening now. */
  live(text, state = "running") {
    if (this.hasEnded) return;
    this.element.dataset.state = state;
    this.element.classList.add("is-working");
    this.living.hidden = false;
    this.living.querySelector(".living-text").textContent = text;
    say(text);
  }

  startStep(call, activity) {
    let step = this.steps.querySelector(`[data-call="${CSS.escape(call)}"]`);
    if (!step) {
      step = copyOf("step-template");
      step.dataset.call = call;
      this.steps.append(step);
    }
    step.querySelector("span").textContent = activity;
    this.live(activity);
  }

  finishStep(call, state, label) {
    const step = this.steps.querySelector(`[data-call="${CSS.escape(call)}"]`);
    if (!step) return;
    const worked = state === "done";
    step.className = worked ? "is-done" : "is-failed";
    step.querySelector(".icon").replaceWith(copyOf(worked ? "step-done" : "step-failed"));
    if (label) step.querySelector("span").textContent = label;
    if (!this.hasEnded) this.live(word("started"));
  }

  /** Put a block in its place; the same block again replaces it. */
  putBlock({ block, html, offset, open }) {
    if (this.hasEnded) return;
    this.takeOver(block);
    let element = this.block(block);
    if (!element) {
      element = document.createElement("div");
      element.dataset.block = String(block);
      const later = [...this.body.children].find((other) => Number(other.dataset.block) > block);
      this.body.insertBefore(element, later ?? null);
    }
    element.dataset.end = String(offset);
    element.className = open ? "block is-open" : "block";
    if (given.get(element) !== html) {
      element.innerHTML = html; // The server's one sanitiser made it.
      given.set(element, html);
    }
    this.body.classList.remove("is-empty");
    this.live(word("writing"));
  }

  /** Text that came with the page stands until the stream begins the answer again from its start. */
  takeOver(block) {
    const isPageText = (node) => !node.dataset?.block;
    if (block === 0) [...this.body.childNodes].filter(isPageText).forEach((node) => node.remove());
  }

  block(number) {
    return this.body.querySelector(`:scope > [data-block="${Number(number)}"]`);
  }

  /** Drop the blocks that reach beyond `offset`: that text was never recorded. What stands is sent again. */
  rewind(offset) {
    if (this.hasEnded) return;
    for (const block of [...this.body.querySelectorAll(":scope > .block")]) {
      if (Number(block.dataset.end) > offset) block.remove();
    }
    this.body.classList.toggle("is-empty", !this.body.hasChildNodes());
  }

  /** The end: final text, its sources, and what to do when it failed. */
  finish({ state, salvaged, error_message: why, html, sources_html: sources, withheld }) {
    this.element.dataset.state = state;
    this.element.classList.remove("is-working");
    if (typeof html === "string") this.settle(html);
    for (const block of this.body.querySelectorAll(".is-open")) block.classList.remove("is-open");
    this.showSources(sources);
    this.element.querySelector(".message-acts").hidden = this.body.classList.contains("is-empty");
    this.element.querySelector("[data-withheld]").hidden = !withheld;
    const count = this.steps.children.length;
    this.living.hidden = count === 0;
    this.living.querySelector(".living-text").textContent =
      count === 1 ? word("steps-one") : word("steps-many", { number: count });
    const outcome = this.element.querySelector("[data-outcome]");
    outcome.hidden = state === "succeeded";
    outcome.classList.toggle("bad", state === "failed");
    if (state === "succeeded") {
      say(word("finished"));
      return;
    }
    const kind = this.outcomeOf(state, salvaged);
    const text = [word(kind), state === "failed" ? why : ""].filter(Boolean).join(" ");
    outcome.querySelector("[data-outcome-text]").textContent = text;
    say(text);
  }

  outcomeOf(state, salvaged) {
    if (state === "cancelled") return this.body.classList.contains("is-empty") ? "state-stopped" : "state-cancelled";
    return salvaged ? "state-salvaged" : "state-failed";
  }

  /** Put the final text; where the blocks already say the same, nothing moves. */
  settle(html) {
    const final = document.createElement("template");
    final.innerHTML = html;
    const squeeze = (text) => text.replace(/\s+/g, " ").trim();
    const shown = [...this.body.children].map((block) => block.innerHTML).join(" ");
    if (squeeze(final.innerHTML).replaceAll("> <", "><") !== squeeze(shown).replaceAll("> <", "><")) {
      this.body.replaceChildren(final.content);
    }
    this.body.classList.toggle("is-empty", !html.trim());
  }

  showSources(html) {
    const store = this.element.querySelector(".answer-sources");
    if (typeof html === "string") store.innerHTML = html;
    const count = store.querySelectorAll(".source").length;
    const button = this.element.querySelector("[data-act=sources]");
    button.hidden = count === 0;
    button.querySelector("[data-count]").textContent = count ? String(count) : "";
  }
}
