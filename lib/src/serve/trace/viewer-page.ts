// Style and script of the page that `traceViewer` builds. The script draws cards (viewer.ts) and knows no kinds of
// records.

export const pageStyle = `
body{font:14px/1.4 system-ui,sans-serif;margin:0;color:#1c2330;background:#f6f7f9}
header{position:sticky;top:0;background:#fff;border-bottom:1px solid #d8dce3;padding:8px 16px}
h1{font-size:16px;margin:0 0 4px}
button,label{margin-right:8px}
button[aria-selected=true]{font-weight:700}
main{padding:8px 16px}
article{background:#fff;border:1px solid #d8dce3;border-radius:4px;margin:4px 0;padding:4px 8px}
.failed{border-left:4px solid #b3261e}
.kind{font-weight:700;margin-right:8px}
.dim{color:#5b6475}
.bar{height:4px;background:#e6e9ef;margin:2px 0}
.bar div{height:4px;background:#3b6fd4;min-width:2px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0;max-height:400px;overflow:auto}
`;

export const pageScript = `
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const make = (name, parent, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
};
const header = make("header", document.body);
make("h1", header, data.title);
make("div", header, data.totals.join(" · "), "dim");
const tabs = make("div", header);
const search = make("input", header);
search.type = "search";
search.placeholder = "Search";
search.setAttribute("aria-label", "Search");
const filters = make("div", header);
const main = make("main", document.body);
let tab = data.tabs[0];
const hidden = new Set();
const counts = new Map();
for (const { kind } of data.cards) counts.set(kind, (counts.get(kind) || 0) + 1);
const buttons = data.tabs.map((name) => {
  const button = make("button", tabs, name);
  button.addEventListener("click", () => { tab = name; draw(); });
  return button;
});
for (const [kind, count] of counts) {
  const label = make("label", filters);
  const box = make("input", label);
  box.type = "checkbox";
  box.checked = true;
  label.append(" " + kind + " (" + count + ")");
  box.addEventListener("change", () => { if (box.checked) hidden.delete(kind); else hidden.add(kind); draw(); });
}
search.addEventListener("input", () => draw());
function draw() {
  for (const button of buttons) button.setAttribute("aria-selected", String(button.textContent === tab));
  const words = search.value.toLowerCase();
  main.replaceChildren();
  for (const card of data.cards) {
    if (!card.tabs.includes(tab) || hidden.has(card.kind)) continue;
    if (words && !(card.title + " " + card.summary + " " + card.labels.join(" ") + " " + card.raw).toLowerCase().includes(words)) continue;
    const article = make("article", main, undefined, card.failed ? "failed" : "");
    if (tab === "Timeline") article.style.marginLeft = 16 * card.depth + "px";
    const line = make("div", article);
    make("span", line, card.kind, "kind");
    make("span", line, card.title);
    make("span", line, "  " + card.time, "dim");
    make("div", article, card.summary);
    const bar = make("div", make("div", article, undefined, "bar"));
    bar.style.marginLeft = card.from + "%";
    bar.style.width = card.length + "%";
    make("div", article, card.labels.join(" · "), "dim");
    const details = make("details", article);
    make("summary", details, "JSON");
    details.open = tab === "Raw";
    make("pre", details, card.raw);
  }
}
draw();
`;
