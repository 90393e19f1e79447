"use strict";
// Every two seconds the page asks for itself again and shows the new numbers, until it is paused.
const pause = document.getElementById("pause");
let paused = false;
pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", paused);
});
setInterval(async () => {
  if (paused || document.hidden) return;
  let next;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  } catch { }
  const now = document.querySelector("main"), title = now.querySelector("h1").textContent;
  document.body.classList.toggle("stale", !next);
  document.title = next ? title : "no answer: " + title;
  if (!next || paused || now.contains(document.activeElement) || !getSelection().isCollapsed) return;
  const open = [...now.querySelectorAll("details")].map((d) => d.open);
  next.querySelectorAll("details").forEach((d, i) => { d.open = open[i]; });
  now.replaceWith(next);
}, 2000);
