/* The thread: questions and answers as frames bring them. Applying a frame twice changes nothing.
   The view follows the text only while the reader is at its end. */
import { Answer } from "./answer.js";
import { copyOf, word } from "./words.js";

const NEAR_END = 96;

export class Thread {
  /** onRun(run | null): an answer is being worked on, or none. onTitle(text). */
  constructor(element, { onRun, onTitle }) {
    this.element = element;
    this.onRun = onRun;
    this.onTitle = onTitle;
    this.toEnd = document.querySelector("[data-act=to-end]");
    addEventListener("scroll", () => this.showToEnd(), { passive: true });
    for (const article of element.querySelectorAll(".is-answer")) new Answer(article).showSources();
  }

  get isAtEnd() {
    return document.documentElement.scrollHeight - scrollY - innerHeight < NEAR_END;
  }

  scrollToEnd() {
    scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
  }

  showToEnd() {
    if (this.toEnd) this.toEnd.hidden = this.isAtEnd;
  }

  /** Change the page; keep the end in view if it was. */
  change(act) {
    const follow = this.isAtEnd;
    act();
    if (follow) this.scrollToEnd();
    this.showToEnd();
  }

  /** A question that was just written and isn't confirmed yet. */
  addPending(key, text) {
    const article = copyOf("question-template");
    article.dataset.key = key;
    article.classList.add("is-sending");
    article.querySelector(".bubble").textContent = text;
    this.append(article);
    this.scrollToEnd();
  }

  confirmPending(key, message) {
    const article = this.pending(key);
    article?.classList.remove("is-sending");
    if (article && message && !document.getElementById(`m-${message}`)) article.dataset.message = message;
  }

  dropPending(key) {
    this.pending(key)?.remove();
  }

  pending(key) {
    return this.element.querySelector(`[data-key="${CSS.escape(key)}"]`);
  }

  append(article) {
    this.element.querySelector("[data-empty]")?.remove();
    this.element.append(article);
  }

  answer(message, run) {
    const found = document.getElementById(`m-${message}`);
    if (found) {
      if (run && !found.dataset.run) found.dataset.run = run;
      return new Answer(found);
    }
    const answer = Answer.make(message, run);
    this.append(answer.element);
    return answer;
  }

  answerOf(run) {
    const found = this.element.querySelector(`.is-answer[data-run="${CSS.escape(String(run))}"]`);
    return found && new Answer(found);
  }

  /** Frames that show something; returns false for others. */
  take(frame) {
    switch (frame.type) {
      case "event":
        this.change(() => this.takeEvent(frame));
        return true;
      case "block":
        this.change(() => this.answer(frame.message).putBlock(frame));
        return true;
      case "rewind":
        this.change(() => this.answer(frame.message).rewind(frame.offset));
        return true;
      default:
        return false;
    }
  }

  takeEvent({ kind, data, run }) {
    switch (kind) {
      case "user_message":
        this.takeQuestion(data);
        break;
      case "run_queued":
        this.answer(data.message, data.run).live(word("queued"), "queued");
        this.onRun(data.run);
        break;
      case "run_requeued":
        this.answerOf(data.run ?? run)?.live(word("queued"), "queued");
        break;
      case "run_started":
        this.answerOf(data.run ?? run)?.live(word("started"));
        this.onRun(data.run ?? run);
        break;
      case "tool_intent":
        this.answerOf(run)?.startStep(data.call, data.activity);
        break;
      case "tool_result":
        this.answerOf(run)?.finishStep(data.call, data.state, data.label);
        break;
      case "stop_requested":
        this.answerOf(data.run ?? run)?.live(word("stopping"));
        break;
      case "run_finished":
        this.answer(data.message, data.run).finish(data);
        this.onRun(null);
        break;
      case "title":
        this.onTitle(data.title);
        break;
    }
  }

  takeQuestion({ message, text, html, key }) {
    if (document.getElementById(`m-${message}`)) return;
    const waiting = [...this.element.querySelectorAll("[data-key]")];
    const article = waiting.find((one) => one.dataset.message === message)
      ?? (key && this.pending(key))
      ?? waiting.find((one) => one.querySelector(".bubble").textContent === text)
      ?? copyOf("question-template");
    if (!article.isConnected) this.append(article);
    article.id = `m-${message}`;
    article.dataset.message = message;
    delete article.dataset.key;
    article.classList.remove("is-sending");
    const bubble = article.querySelector(".bubble");
    if (html) {
      bubble.innerHTML = html; // The server's one sanitiser made it.
      bubble.className = "bubble prose";
    } else {
      bubble.textContent = text;
    }
  }
}
