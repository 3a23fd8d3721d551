/* Search results by keyboard: j, k or the arrows move between them, Enter opens. */

export function startResults() {
  const list = document.querySelector("[data-results]");
  if (!list) return;
  const links = [...list.querySelectorAll("h2 a")];
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    const inField = event.target.closest("input, textarea, select");
    const down = event.key === "ArrowDown" || (!inField && event.key === "j");
    const up = event.key === "ArrowUp" || (!inField && event.key === "k");
    if (!down && !up) return;
    if (inField && (up || inField.id !== "q")) return;
    const at = links.indexOf(document.activeElement);
    if (!inField && at === -1 && event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (up && at === 0) document.getElementById("q").focus();
    else links[Math.max(0, Math.min(links.length - 1, at + (down ? 1 : -1)))].focus();
  });
}
