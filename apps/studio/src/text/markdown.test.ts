import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import ReactMarkdown from "react-markdown";
import remarkGfm from "remark-gfm";
import { expect, test } from "vitest";

import { visibleName } from "../parts/text.ts";
import { isSafeImage, safeLink } from "./links.ts";
import { isOneParagraph, isTooDeep, Markdown } from "./markdown.tsx";

function html(text: string): string {
  return renderToStaticMarkup(createElement(Markdown, { text }));
}

test("raw HTML is shown as text", () => {
  const page = html("<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n<svg onload=alert(1)>");
  expect(page).not.toMatch(/<(?:script|img|svg)/i);
  expect(page).toContain("&lt;script&gt;");
});

test.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  "data:text/html,<b>",
  "vbscript:x",
  "file:///etc/passwd",
  "//host/x",
])("%s is not a link", (url) => {
  expect(html(`[click](<${url}>)`)).not.toContain("href");
  expect(safeLink(url)).toBeNull();
});

test("web and mail addresses are links that open a tab without access to this one", () => {
  const page = html("[docs](https://example.com/a) <mailto:a@example.com>");
  expect(page).toContain('<a href="https://example.com/a" target="_blank" rel="noopener noreferrer"');
  expect(page).toContain('href="mailto:a@example.com"');
});

test("only images in the message itself are shown, and no SVG", () => {
  expect(html("![dot](data:image/png;base64,AAAA)")).toContain('<img src="data:image/png;base64,AAAA"');
  expect(html("![dot](https://example.com/a.png)")).not.toContain("<img");
  expect(html("![dot](https://example.com/a.png)")).toContain('href="https://example.com/a.png"');
  expect(isSafeImage("data:image/svg+xml;base64,AAAA")).toBe(false);
});

test("a long text is cut, and the rest is offered", () => {
  const page = html("word ".repeat(200_000));
  expect(page.length).toBeLessThan(20_000);
  expect(page).toContain("of 1,000,000 characters");
});

test("text that nests too deep is shown as it is", () => {
  expect(isTooDeep("> quote\n> > two")).toBe(false);
  expect(isTooDeep(">".repeat(5000))).toBe(true);
  expect(isTooDeep("- ".repeat(5000))).toBe(true);
  expect(html(">".repeat(5000))).not.toContain("<blockquote");
});

test("a line that is taken for one paragraph without a parser is one paragraph for the parser", () => {
  const parsed = (text: string): string =>
    renderToStaticMarkup(createElement(ReactMarkdown, { remarkPlugins: [remarkGfm], children: text }));
  const alphabet = [
    "a",
    "Z",
    "1",
    " ",
    ".",
    ",",
    "-",
    ":",
    "/",
    "=",
    "+",
    "(",
    ")",
    "'",
    '"',
    "%",
    "?",
    "é",
    "www",
    "*",
    "_",
    "#",
    "\n",
    "~",
    "@",
    "|",
    ">",
  ];
  // A fixed sequence of pseudo-random numbers (a linear congruential generator), so that a failure can be repeated.
  let seed = 1;
  const next = (below: number): number => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  let taken = 0;
  for (let round = 0; round < 3000; round += 1) {
    const text = Array.from({ length: 1 + next(12) }, () => alphabet[next(alphabet.length)] ?? "").join("");
    if (!isOneParagraph(text)) continue;
    taken += 1;
    expect(parsed(text), text).toBe(renderToStaticMarkup(createElement("p", null, text)));
  }
  expect(taken).toBeGreaterThan(50);
});

test.each(["Step 12.", "It takes 4.", "Thank you: that is all (really)."])("%s needs no parser", (text) => {
  expect(isOneParagraph(text)).toBe(true);
});

test.each([
  "See www.example.com",
  "See https://example.com",
  "Write to a@example.com",
  "- one",
  "1. one",
  "two\nlines",
  "a *b*",
])("%s needs the parser", (text) => {
  expect(isOneParagraph(text)).toBe(false);
});

test("headings begin below the title of the session, and blocks choose their own direction", () => {
  expect(html("# One")).toContain('<h2 dir="auto">One</h2>');
  expect(html("text")).toContain('<p dir="auto">');
});

test("names show their control characters", () => {
  expect(visibleName("a\u202Egnp.exe")).toBe("a\\u202egnp.exe");
  expect(visibleName("two\nlines\u0000")).toBe("two lines\\u0000");
});

test.each([
  ["the area is $\\pi r^2$.", "<code>\\pi r^2</code>"],
  ["so \\(a_1 + b_{12}\\) holds", "<code>a_1 + b_{12}</code>"],
  ["**$x$** and *$y$*", "<strong>"],
  ["$a\\$b$", "<code>a\\$b</code>"],
])("%s has a formula in its line", (text, part) => {
  expect(html(text)).toContain('<span class="formula" hidden="">');
  expect(html(text)).toContain(part);
});

test.each([
  ["$$E = mc^2$$", "E = mc^2"],
  ["\\[ E = mc^2 \\]", "E = mc^2"],
  ["Text before\n$$\na\n+ b\n- c\n$$\nand after", "a\n+ b\n- c"],
  ["\\[\n\\begin{aligned}\na &= b \\\\\n\n&= c_1 * d * e\n\\end{aligned}\n\\]", "&amp;= c_1 * d * e"],
  ["> $$\n> x\n> $$\n\nafter", "<code>x</code>"],
  ["- a list\n\n  $$\n  y^2\n  $$", "<code>y^2</code>"],
  ["```math\nx^2\n```", "<code>x^2"],
])("%j has a formula of its own line", (text, part) => {
  expect(html(text)).toContain('<span class="formula display" hidden="">');
  expect(html(text)).toContain(part);
  expect(html(text)).not.toContain("<em>");
});

test.each([
  "It costs $5 and not $10.",
  "Between $5 and $10, or US$7 and US$8.",
  "5$ or 6$, and 3$/month, 4$/year",
  "`$x$` is code",
  "an escaped \\$x\\$ stays",
  "```\n$$\nx\n$$\n```",
  "one $ alone and $ another",
  "\\(never closed",
])("%j has no formula", (text) => {
  expect(html(text)).not.toContain("formula");
});

test("the search for the end of a formula is bounded, so that many markers cost no quadratic time", () => {
  expect(html(`\\(${"x".repeat(1900)}\\)`)).toContain("formula");
  expect(html(`\\(${"x".repeat(2100)}\\)`)).not.toContain("formula");
  expect(html(`$${"x".repeat(2100)}$`)).not.toContain("formula");
  // The second marker ends the search for the end of the first one.
  const page = html("\\(a \\(b\\)");
  expect(page).toContain("<code>b</code>");
  expect(page).toContain("(a ");
});
