// Requests the view again and replaces the old content.
const main = document.getElementById("main");
const live = document.getElementById("live");
const every = 2000;
let text = "";

async function refresh() {
  if (document.hidden || !("live" in main.dataset) || busy()) return;
  try {
    const answer = await fetch(location.href, { headers: { "Ilion-Fragment": "main" }, redirect: "error" });
    if (!answer.ok) throw new Error(answer.statusText);
    show(await answer.text());
    say("Live, " + new Date().toLocaleTimeString());
  } catch {
    say("The node does not respond. The data is out of date.");
  }
}

// busy reports whether the user is editing a form field.
function busy() {
  const at = document.activeElement;
  return at !== null && main.contains(at) && /^(SELECT|INPUT|TEXTAREA)$/.test(at.tagName);
}

function show(next) {
  if (next === text) return;
  text = next;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolled = [...main.querySelectorAll(".scroll, .bars")].map((e) => e.scrollLeft);
  main.innerHTML = next;
  main.querySelectorAll(".scroll, .bars").forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function say(words) {
  live.textContent = words;
  live.classList.toggle("old", words.startsWith("The node"));
}

// Select a partition without loading the page again.
main.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/ui/storage']");
  if (!link || location.pathname !== "/ui/storage" || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  refresh();
});
addEventListener("popstate", refresh);

// The arrow keys select the adjacent bar.
main.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: "before", ArrowRight: "after" }[event.key];
  if (step && (event.target.closest(".bars") || event.target.closest(".steps"))) {
    event.preventDefault();
    document.getElementById(step)?.click();
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "statement") {
    event.target.form.requestSubmit(event.target.form.querySelector("button.main"));
  }
});

main.addEventListener("change", (event) => {
  if (event.target.id === "table") event.target.form.requestSubmit();
});

document.addEventListener("visibilitychange", refresh);
setInterval(refresh, every);
