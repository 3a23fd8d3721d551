/* Upload: many files, chosen or dropped, two at a time, each with its own progress and outcome.
   Without scripts the form sends all of them at once. */
import { sentenceOf } from "./trouble.js";
import { copyOf, word } from "./words.js";

const AT_ONCE = 2;

function show(row, text, kind = "") {
  const state = row.querySelector(".state");
  state.textContent = text;
  state.className = `state ${kind}`;
}

/** Send one file; resolves when the server has it or refused it. */
function send(form, file, row) {
  return new Promise((resolve) => {
    const data = new FormData();
    data.append("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
    data.append("files", file);
    const request = new XMLHttpRequest();
    const bar = row.querySelector("progress");
    request.open("POST", form.action);
    request.setRequestHeader("HX-Request", "true");
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) bar.value = event.loaded / event.total;
    });
    request.addEventListener("load", () => {
      bar.remove();
      const moved = request.getResponseHeader("HX-Redirect");
      if (moved) {
        location.assign(moved);
        return;
      }
      if (request.status >= 200 && request.status < 300) {
        show(row, word("upload-sent"), "good");
        window.htmx.swap("#documents", request.responseText, { swapStyle: "outerHTML" });
      } else {
        show(row, sentenceOf(request.responseText) || word("upload-failed"), "bad");
      }
      resolve();
    });
    request.addEventListener("error", () => {
      bar.remove();
      show(row, word("upload-failed"), "bad");
      resolve();
    });
    request.send(data);
  });
}

export function startUpload() {
  const form = document.querySelector("form[data-upload]");
  if (!form) return;
  const sending = form.querySelector("[data-sending]");
  const limit = Number(form.dataset.limit);
  const queue = [];
  let active = 0;

  const next = () => {
    while (active < AT_ONCE && queue.length) {
      const [file, row] = queue.shift();
      active += 1;
      send(form, file, row).then(() => { active -= 1; next(); });
    }
  };
  const take = (files) => {
    sending.hidden = false;
    for (const file of files) {
      const row = copyOf("sending-item");
      row.firstElementChild.textContent = file.name;
      sending.append(row);
      if (file.size > limit * 1024 * 1024) {
        row.querySelector("progress").remove();
        show(row, word("upload-large", { number: limit }), "bad");
      } else {
        show(row, word("upload-waiting"));
        queue.push([file, row]);
      }
    }
    next();
  };

  form.querySelector("[data-upload-button]").hidden = true;
  form.elements.files.addEventListener("change", (event) => {
    take([...event.target.files]);
    event.target.value = "";
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  let depth = 0;
  form.addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; form.classList.add("is-over"); });
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("dragleave", () => { depth -= 1; if (depth <= 0) form.classList.remove("is-over"); });
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    form.classList.remove("is-over");
    take([...event.dataTransfer.files]);
  });
  // A file dropped beside the field would otherwise replace the page.
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
}
