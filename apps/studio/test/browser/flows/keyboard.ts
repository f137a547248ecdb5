// The whole page without a mouse: every step is a key press, and the focus is visible and where a reader expects it.

import type { Flow } from "../flow.ts";
import type { Page } from "playwright-core";

import { button, read, seeEnd, seeText, sessionOf, talk } from "../flow.ts";
import { check, until } from "../watched-page.ts";

/** The role and the name of the focused element, as far as its attributes and its text show. */
const focused = `(() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return "";
  const label = element.labels?.[0]?.textContent ?? "";
  const name = element.getAttribute("aria-label") || label || element.textContent || "";
  const style = getComputedStyle(element);
  const ring = style.outlineStyle !== "none" || style.boxShadow !== "none" ||
    
    // These change their border or their background.
    element.closest(".composer, [role=separator], [role=menu]") !== null;
  return (ring ? "" : "(no focus ring) ") + name.trim().replaceAll(/\\s+/g, " ").slice(0, 80);
})()`;

async function focusedName(page: Page): Promise<string> {
  return page.evaluate<string>(focused);
}

/**
 * Presses Tab until the element with the name has the focus. Every element on the way must have a name and show that it
 * has the focus.
 */
async function tabTo(page: Page, name: RegExp, key: "Tab" | "Shift+Tab" = "Tab"): Promise<void> {
  const passed: string[] = [];
  for (let press = 0; press < 150; press += 1) {
    await page.keyboard.press(key);
    const current = await focusedName(page);
    if (current !== "") {
      check(!current.startsWith("(no focus ring)"), `the focus is not visible on ${current}`);
    }
    if (name.test(current)) return;
    passed.push(current);
  }
  throw new Error(`Tab does not reach ${String(name)}; it reaches ${[...new Set(passed)].join(" | ")}`);
}

export const keyboardFlows: readonly Flow[] = [
  {
    name: "everything by keyboard: start, read, steer, approve, search, menus, dialogs",
    run: async ({ open, server }) => {
      const { page } = await open();
      // The first Tab stop skips the header.
      await page.getByRole("textbox", { name: "First message" }).waitFor();
      await page.evaluate("document.activeElement?.blur()");
      await tabTo(page, /Skip to the content/);
      await tabTo(page, /^First message$/);
      await page.keyboard.type("Written without a mouse");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/studio\/s\//);
      await seeText(page, "You said: Written without a mouse");
      await seeEnd(page);
      const first = sessionOf(page);
      // Messages.
      await page.keyboard.press("j");
      await page.locator("article.msg.sel", { hasText: "Written without a mouse" }).first().waitFor();
      await page.keyboard.press("j");
      await page.locator("article.msg.assistant.sel").waitFor();
      await page.keyboard.press("Escape");
      await page.locator("article.msg.sel").waitFor({ state: "detached" });
      await page.keyboard.press("s");
      await page.keyboard.type("A second message");
      await page.keyboard.press("Enter");
      await seeText(page, "You said: A second message");
      await seeEnd(page);
      await page.keyboard.press("Escape");
      // The menu of a message: fork.
      await tabTo(page, /^Actions on message 2$/);
      await page.keyboard.press("Enter");
      await page.getByRole("menu").waitFor();
      await until(
        "the first item of the menu has the focus",
        async () => {
          const name = await focusedName(page);
          if (name !== "Fork from here") await page.keyboard.press("ArrowDown");
          return name;
        },
        (name) => name === "Fork from here",
      );
      await page.keyboard.press("Enter");
      await page.waitForURL((url) => !url.pathname.includes(first));
      // An approval: the palette starts the scenario, Tab reaches the field, Ctrl and Enter approve.
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").waitFor();
      await page.keyboard.type("Scenario: Approval");
      await page.getByRole("option", { name: /Scenario: Approval/ }).waitFor();
      await page.keyboard.press("Enter");
      await button(talk(page), /^Approve$/).waitFor();
      const approval = sessionOf(page);
      await tabTo(page, /^amount/);
      await page.keyboard.press("Control+a");
      await page.keyboard.type("77");
      await page.keyboard.press("Control+Enter");
      await seeText(page, "The refund is paid: 77.00 EUR to the card.");
      await seeEnd(page);
      check((await read(server, `sessions/${approval}/messages`)).includes("77.00 EUR"), "the edit is not stored");
      // The timeline: arrow keys move along the bars, Enter selects one.
      const bars = page.getByRole("region", { name: "Timeline" }).getByRole("option");
      await bars.first().waitFor();
      await until(
        "the timeline has the focus",
        async () => {
          await page.keyboard.press("Tab");
          return page.evaluate<boolean>("document.activeElement?.closest('.timeline-pane [role=listbox]') !== null");
        },
        (hasFocus) => hasFocus,
      );
      // The first bar may be the time in the queue, which is no effect.
      await until(
        "a bar is selected",
        async () => {
          await page.keyboard.press("ArrowRight");
          await page.keyboard.press("Enter");
          return page.url();
        },
        (url) => /effect=\d+/.test(url),
      );
      // The session menu, and a dialog that Escape closes and that returns the focus.
      await tabTo(page, /^Actions on the session$/, "Shift+Tab");
      await page.keyboard.press("Enter");
      await page.getByRole("menu").waitFor();
      await until(
        "the last item has the focus",
        async () => {
          await page.keyboard.press("End");
          return focusedName(page);
        },
        (name) => name.startsWith("Delete"),
      );
      await page.keyboard.press("Enter");
      await page.getByRole("dialog", { name: "Delete this session?" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      // Views by the palette.
      for (const [name, path] of [
        ["Waiting", "waiting"],
        ["Overview", "overview"],
        ["Playground", "playground"],
        ["Open a replay file", "replay"],
      ] as const) {
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox").waitFor();
        await page.keyboard.type(name);
        await page.getByRole("option", { name }).first().waitFor();
        // Sessions and messages that contain the word come first.
        await until(
          `${name} is chosen`,
          async () => {
            const chosen = await page.locator(".palette-entry[aria-selected='true']").innerText();
            if (!(chosen.startsWith(name) && chosen.includes("view"))) await page.keyboard.press("ArrowDown");
            return chosen;
          },
          (chosen) => chosen.startsWith(name) && chosen.includes("view"),
        );
        await page.keyboard.press("Enter");
        await page.waitForURL(new RegExp(`/studio/${path}`));
        if (path === "replay") await page.goBack();
      }
    },
  },
  {
    name: "delete sessions with the keyboard",
    run: async ({ open, start }) => {
      const server = await start({ database: "keyboard-delete.db" });
      const { page } = await open("", server);
      for (const name of ["one", "two"]) {
        await page.getByRole("textbox", { name: "First message" }).waitFor();
        await tabTo(page, /^First message$/);
        await page.keyboard.type(`Delete ${name}`);
        await page.keyboard.press("Enter");
        await page.waitForURL(/\/studio\/s\//);
        await seeText(page, `You said: Delete ${name}`);
        await seeEnd(page);
        await page.keyboard.press("n");
      }
      await page.locator(".list-row", { hasText: "Delete two" }).waitFor();
      await tabTo(page, /^Select sessions$/);
      await page.keyboard.press("Enter");
      await tabTo(page, /^Select Delete two$/);
      await page.keyboard.press("Space");
      await tabTo(page, /^Delete…$/, "Shift+Tab");
      await page.keyboard.press("Enter");
      await page.getByRole("dialog", { name: "Delete 1 session?" }).waitFor();
      await tabTo(page, /^Delete 1 session$/);
      await page.keyboard.press("Enter");
      await page.locator(".list-row", { hasText: "Delete two" }).waitFor({ state: "detached" });
      await page.locator(".list-row", { hasText: "Delete one" }).waitFor();
      const left: { readonly items: readonly unknown[] } = JSON.parse(await read(server, "sessions"));
      check(left.items.length === 1, `${left.items.length} sessions are left`);
    },
  },
];
