/* Sentences for people come from the page, where they are translated; `word` finds them by name. */

const store = document.getElementById("words");

/** The sentence called `name`, with `{...}` replaced by `values`. An unknown name is a bug and shows as itself. */
export function word(name, values = {}) {
  const found = store?.content.querySelector(`[data-word="${name}"]`);
  const text = found ? found.textContent : name;
  return text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
}

let waiting;
/** Tell screen readers, politely; only the last of several quick changes is said. */
export function say(text) {
  const live = document.getElementById("live");
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (live && live.textContent !== text) live.textContent = text; }, 300);
}

/** The one element of a <template>, as a new copy. */
export function copyOf(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}
