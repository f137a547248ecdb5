// The components of `everturn/react` in a page of one's own: without the CSS of the studio, and under a strict
// Content-Security-Policy. The flows of approvals test the same components in the studio.

import type { Flow } from "../flow.ts";

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { rolldown } from "rolldown";

import { supportCase } from "../../turn-fixture.ts";
import { button } from "../flow.ts";
import { check, until } from "../watched-page.ts";

/** A page that shows one call and lists the decisions about it. */
const approvalPage = `
  import { createElement as h, useState } from "react";
  import { createRoot } from "react-dom/client";
  import { ApprovalForm } from "everturn/react";

  const call = {
    id: "c1", name: "refund", arguments: { euros: 189, note: "for\\u202e you" }, rawArguments: null, provider: null,
    metadata: {}, reason: "approval", decision: null, question: null, opts: {}, path: [], idempotencyKey: "k",
    shown: { name: "refund", arguments: { euros: 189, note: "for\\u202e you" }, parents: [], replay: "never" },
    digest: "d1",
  };
  function Page() {
    const [decisions, setDecisions] = useState([]);
    const inner = { ...call, shown: { ...call.shown, parents: ["assistant"] }, digest: "d2" };
    return h("main", null,
      h("section", { "aria-label": "own call" },
        h(ApprovalForm, { call, decide: (decision) => setDecisions((all) => [...all, decision]) })),
      h("section", { "aria-label": "call of an agent" }, h(ApprovalForm, { call: inner, disabled: true, decide: () => {} })),
      h("output", null, JSON.stringify(decisions)));
  }
  createRoot(document.querySelector("#root")).render(h(Page));
`;

const studioFolder = join(import.meta.dirname, "../../..");

/** A page that shows the timeline of a turn, which keeps its own selection and playhead. */
const timelinePage = `
  import { createElement as h, useState } from "react";
  import { createRoot } from "react-dom/client";
  import { Timeline } from "everturn/react";

  function Page() {
    const [selected, setSelected] = useState([]);
    const load = async () => ({ ordinal: 2, effect: null, item: { response: { reply: "the whole reply" } }, epoch: 1, attempt: 1, timing: null, records: [] });
    return h("main", null,
      h(Timeline, { timeline: ${JSON.stringify(supportCase)}, load, onSelect: (row) => setSelected((rows) => [...rows, row]) }),
      h("output", null, JSON.stringify(selected)));
  }
  createRoot(document.querySelector("#root")).render(h(Page));
`;

/** Serves a program in a page of its own. Returns the address. */
async function servePage(program: string, atEnd: (close: () => Promise<void>) => void): Promise<string> {
  const script = await bundledProgram(program);
  const css = readFileSync(join(studioFolder, "../../lib/react.css"), "utf8");
  const link = '<link rel="stylesheet" href="/react.css"><link rel="icon" href="data:,">';
  const files: { readonly [path: string]: readonly [type: string, text: string] } = {
    "/": [
      "text/html",
      `<!doctype html><html lang="en">${link}<title>Page</title><div id="root"></div><script type="module" src="/page.js"></script>`,
    ],
    "/page.js": ["text/javascript", script],
    "/react.css": ["text/css", css],
  };
  const server = createServer((request, response) => {
    const [type, text] = files[request.url ?? ""] ?? ["text/plain", ""];
    response.setHeader(
      "content-security-policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:",
    );
    response.setHeader("content-type", `${type}; charset=utf-8`).end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" ? (address?.port ?? 0) : 0}`;
}

async function bundledProgram(program: string): Promise<string> {
  const entry = join(studioFolder, "page.js");
  const bundler = await rolldown({
    input: entry,
    platform: "browser",
    resolve: { conditionNames: ["source", "browser", "import", "default"] },
    transform: { define: { "process.env.NODE_ENV": '"production"' } },
    plugins: [
      { name: "page", resolveId: (id) => (id === entry ? id : null), load: (id) => (id === entry ? program : null) },
    ],
  });
  const { output } = await bundler.generate({ format: "esm", codeSplitting: false });
  await bundler.close();
  return output[0].code;
}

export const componentFlows: readonly Flow[] = [
  {
    name: "an approval of everturn/react in a page of one's own: edit, deny with a reason, keys, and a phone",
    run: async ({ open, atEnd }) => {
      const url = await servePage(approvalPage, atEnd);
      const { page } = await open("", { url, studio: () => `${url}/` }, { width: 390, height: 844 });
      const own = page.getByRole("region", { name: "own call" });
      const decisions = async (): Promise<string> => page.locator("output").innerText();
      const see = async (text: string): Promise<void> =>
        void (await until(`the decisions are ${text}`, decisions, (list) => list === text));

      // Nothing is hidden: the character that turns the direction of text is shown as its code point.
      check((await own.locator("pre").innerText()).includes("for⟨U+202E⟩ you"), "an invisible character is not shown");
      await button(own, "Approve").click();
      await see('[{"type":"approve"}]');

      await button(own, "Edit arguments…").click();
      const field = own.getByLabel("Arguments, as JSON");
      await field.fill('{"euros": 50');
      await own.getByText("Cannot be approved yet: The arguments are not JSON").waitFor();
      check(await button(own, "Approve").isDisabled(), "arguments that are not JSON can be approved");
      await field.press("Control+Enter");
      await field.fill('{"euros": 50}');
      await field.press("Control+Enter");
      await see('[{"type":"approve"},{"type":"approve","arguments":{"euros":50}}]');
      await button(own, "Reset").click();

      await button(own, "Deny with reason…").click();
      const reason = own.getByLabel("Reason, which the model reads");
      await page.locator("input:focus").waitFor();
      await reason.press("Escape");
      await page.locator("button:focus", { hasText: "Deny with reason…" }).waitFor();
      await page.keyboard.press("Enter");
      await reason.fill("  too much ");
      await reason.press("Enter");
      await until("the denial is recorded", decisions, (list) => list.endsWith('{"type":"deny","reason":"too much"}]'));

      // A call inside another agent cannot be edited, and a disabled form decides nothing.
      const inner = page.getByRole("region", { name: "call of an agent" });
      check(
        (await button(inner, "Edit arguments…").count()) === 0,
        "the arguments of a call of an agent can be edited",
      );
      check(await button(inner, "Approve").isDisabled(), "a disabled form approves");
      await inner.getByText("assistant → refund").first().waitFor();
      const heights = await own.getByRole("button").evaluateAll((all) => all.map((element) => element.clientHeight));
      check(Math.min(...heights) >= 42, `a button has ${Math.min(...heights)} px on a phone`);
      const background = async (): Promise<string> =>
        button(inner, "Approve").evaluate(
          (element) => element.ownerDocument.defaultView?.getComputedStyle(element).backgroundColor ?? "",
        );
      const before = await background();
      await page.evaluate('document.documentElement.style.setProperty("--everturn-accent", "rgb(1, 2, 3)")');
      const after = await background();
      check(before !== after && after === "rgb(1, 2, 3)", `the variable changes ${before} to ${after}`);
    },
  },
  {
    name: "a timeline of everturn/react in a page of one's own: select, scrub, the card, the rows, keys, and variables",
    run: async ({ open, atEnd }) => {
      const url = await servePage(timelinePage, atEnd);
      const { page } = await open("", { url, studio: () => `${url}/` });
      const bars = page.getByRole("listbox", { name: "Effects of the turn" });
      const selected = bars.getByRole("option", { selected: true });
      await bars.getByRole("option").first().waitFor();
      check((await bars.getByRole("option").count()) === 6, "the timeline has not six bars");
      await page.getByText("3.3 s active · 1.1 s lost · 4 m 12 s waiting · 7 commits").waitFor();
      await page.getByText("process-14501 died").waitFor();

      // The component keeps the selection, and reports it.
      await bars.getByRole("option", { name: "tool, find_order" }).click();
      await selected.and(page.getByRole("option", { name: "tool, find_order" })).waitFor();
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("End");
      await selected.and(page.getByRole("option", { name: "person, refund" })).waitFor();
      await until(
        "the rows",
        async () => page.locator("output").innerText(),
        (rows) => rows === "[3,4,7]",
      );

      // The playhead, with the keys of the axis. Keys elsewhere belong to the page.
      const axis = page.getByRole("slider", { name: "Playhead" });
      await page.locator("body").press("ArrowLeft");
      check(
        (await axis.getAttribute("aria-valuetext")) === "the present",
        "a key outside of the axis moves the playhead",
      );
      await axis.focus();
      for (const [key, text] of [
        ["ArrowLeft", "4.5 s after the start"],
        ["ArrowLeft", "4.5 s after the start"],
        ["ArrowLeft", "1.5 s after the start"],
        ["Home", "0 ms after the start"],
        ["ArrowLeft", "0 ms after the start"],
      ] as const) {
        await page.keyboard.press(key);
        await until(
          "the playhead",
          async () => axis.getAttribute("aria-valuetext"),
          (value) => value === text,
        );
      }
      await page.getByRole("button", { name: "back to the present" }).click();

      await bars.getByRole("option", { name: "model call, step 1" }).hover();
      await page.getByText("the whole reply").or(page.getByText("I am sorry. Let me look")).first().waitFor();
      await page.getByRole("button", { name: "rows" }).click();
      await page.getByRole("option", { name: /7 tool refund/ }).waitFor();
      await page.getByRole("button", { name: "rows" }).click();

      const colour = async (): Promise<string> =>
        bars
          .getByRole("option", { name: "tool, find_order" })
          .evaluate((bar) => bar.ownerDocument.defaultView?.getComputedStyle(bar).color ?? "");
      await page.evaluate('document.documentElement.style.setProperty("--everturn-tool", "rgb(1, 2, 3)")');
      check((await colour()) === "rgb(1, 2, 3)", `the variable does not change ${await colour()}`);

      await page.setViewportSize({ width: 390, height: 844 });
      const heights = await page
        .getByRole("button")
        .evaluateAll((all) =>
          all.map((element) => element.getBoundingClientRect().height).filter((height) => height > 0),
        );
      check(Math.min(...heights) >= 44, `a button of the timeline has ${Math.min(...heights)} px on a phone`);
    },
  },
];
