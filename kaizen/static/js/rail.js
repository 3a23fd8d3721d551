/* The conversations in the rail: marks the open one, loads them again when a title or a new chat comes. */

function markOpen() {
  const open = document.getElementById("chat")?.dataset.conversation;
  for (const link of document.querySelectorAll(".rail-talks a.talk")) {
    if (link.dataset.conversation === open) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let waiting;
/** Ask for the list again, at most once a second. */
export function refreshRail() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const list = document.getElementById("rail-talks");
    if (list && window.htmx) window.htmx.trigger(list, "rail:refresh");
  }, 1000);
}

export function startRail() {
  const list = document.getElementById("rail-talks");
  if (!list) return;
  document.addEventListener("htmx:afterSettle", markOpen);
  markOpen();
}
