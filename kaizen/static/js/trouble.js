/* When a part of a page could not be fetched: says so in the server's own words, above the page. */
import { word } from "./words.js";

/** The sentence of an error page or problem document. */
export function sentenceOf(text) {
  if (text.trimStart().startsWith("{")) {
    try {
      return JSON.parse(text).detail ?? "";
    } catch {
      return "";
    }
  }
  const page = new DOMParser().parseFromString(text, "text/html");
  return page.querySelector(".lead")?.textContent.trim() ?? "";
}

/** Show `text` above the page until it is dismissed or replaced. */
export function showTrouble(text) {
  const box = document.getElementById("trouble");
  box.querySelector("[data-text]").textContent = text;
  box.hidden = false;
}

export function startTrouble() {
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr, elt } = event.detail;
    if (elt.id === "documents" && xhr.status === 404) elt.removeAttribute("hx-trigger");
    showTrouble(sentenceOf(xhr.responseText) || word("not-loaded"));
  });
  document.addEventListener("htmx:sendError", () => showTrouble(word("not-loaded")));
  document.addEventListener("htmx:afterOnLoad", () => { document.getElementById("trouble").hidden = true; });
  document.getElementById("trouble").querySelector("button").addEventListener("click", (event) => {
    event.currentTarget.closest("#trouble").hidden = true;
  });
}
