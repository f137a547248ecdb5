// What screen readers announce, and what moves: live regions, roles, and reduced motion. looks.ts checks the names of
// all controls of every view.

import type { Flow } from "../flow.ts";
import type { Page } from "playwright-core";

import { accessibilityTree } from "../accessibility-tree.ts";
import { button, composer, seeEnd, seeText, serverDown, startScenario, startSession, talk } from "../flow.ts";
import { check, until } from "../watched-page.ts";

/** The texts that live regions have had since the page was opened. A screen reader reads changes of them. */
const recordAnnouncements = `
  window.announced = [];
  const isLive = (element) => element.closest("[role=status], [role=alert], [aria-live=polite], [aria-live=assertive]");
  new MutationObserver((changes) => {
    for (const { target, addedNodes } of changes) {
      for (const node of [target, ...addedNodes]) {
        const element = node instanceof Element ? node : node.parentElement;
        const region = element === null ? null : isLive(element) ?? element.querySelector("[role=status], [role=alert], [aria-live]");
        const text = region?.textContent?.trim() ?? "";
        if (text !== "" && window.announced.at(-1) !== text) window.announced.push(text);
      }
    }
  }).observe(document, { childList: true, subtree: true, characterData: true });
`;

async function seeAnnounced(page: Page, part: RegExp): Promise<void> {
  await until(
    `${String(part)} is announced`,
    async () => page.evaluate<readonly string[]>("window.announced"),
    (announced) => announced.some((text) => part.test(text)),
  );
}

/** Animations that run now: their names and durations. */
const runningAnimations = `document.getAnimations()
  .filter(({ playState, effect }) => playState === "running" && Number(effect?.getComputedTiming().duration) > 10)
  .map((animation) => (animation.animationName ?? animation.transitionProperty ?? "animation") + " of " + (animation.effect?.target?.className ?? ""))`;

export const accessibilityFlows: readonly Flow[] = [
  {
    name: "screen readers: the work of a turn, waits, errors and a lost connection are announced",
    run: async ({ open, start }) => {
      const server = await start({ database: "announced.db" });
      const watched = await open("", server);
      const { page } = watched;
      await page.addInitScript(recordAnnouncements);
      await page.reload();
      await startScenario(page, "Approval");
      await seeAnnounced(page, /Working/);
      await button(talk(page), /^Approve$/).waitFor();
      await seeAnnounced(page, /^Status: approval/);
      await button(talk(page), /^Approve$/).click();
      await seeText(page, "The refund is paid");
      await seeEnd(page);
      await seeAnnounced(page, /^Status: completed/);
      await composer(page).fill("Please fail");
      await composer(page).press("Enter");
      await seeAnnounced(page, /^Status: failed/);
      watched.allowFailures(serverDown);
      await server.kill();
      await seeAnnounced(page, /reconnecting/i);
    },
  },
  {
    name: "screen readers: roles of the conversation, the timeline and the form",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Approval");
      await button(talk(page), /^Approve$/).waitFor();
      // The timeline reads the wait a moment later.
      await page.getByRole("option", { name: /issue_refund.*wait/ }).waitFor();
      const nodes = await accessibilityTree(page);
      const names = (role: string): readonly string[] =>
        nodes.filter((node) => node.role === role).map(({ name }) => name);
      for (const [role, name] of [
        ["banner", ""],
        ["navigation", "Views"],
        ["main", ""],
        ["complementary", "Sessions"],
        ["complementary", "Inspector"],
        ["region", "Conversation"],
        ["region", "Timeline"],
      ] as const)
        check(
          names(role).some((other) => name === "" || other === name),
          `there is no ${role} ${name}`,
        );
      check(names("article").includes("Message 1 of user"), `messages are ${names("article").join(", ")}`);
      check(names("heading").length > 0, "the page has no heading");
      check(
        names("textbox").some((name) => name.startsWith("amount")),
        `fields are ${names("textbox").join(", ")}`,
      );
      check(
        names("combobox").some((name) => name.startsWith("currency")),
        `choices are ${names("combobox").join(", ")}`,
      );
      check(
        names("option").some((name) => /issue_refund/.test(name) && /wait/.test(name)),
        `bars of the timeline are ${names("option").join(", ")}`,
      );
      check(
        nodes.some(({ role, properties }) => role === "link" && properties["current"] === "page") ||
          (await page.locator("nav [aria-current='page']").count()) === 1,
        "the current view is not marked",
      );
    },
  },
  {
    name: "reduced motion: nothing is animated",
    run: async ({ open }) => {
      const moving: { [name: string]: readonly string[] } = {};
      for (const reducedMotion of [false, true]) {
        const { page } = await open("", undefined, { reducedMotion });
        await startScenario(page, "Long answer");
        await seeText(page, "The idea");
        const seen = new Set<string>();
        for (let look = 0; look < 5; look += 1) {
          for (const name of await page.evaluate<readonly string[]>(runningAnimations)) seen.add(name);
          await page.keyboard.press("Control+k");
          await page.locator(".palette").waitFor();
          for (const name of await page.evaluate<readonly string[]>(runningAnimations)) seen.add(name);
          await page.keyboard.press("Escape");
          await page.locator(".palette").waitFor({ state: "detached" });
        }
        moving[String(reducedMotion)] = [...seen];
        await button(page, /^Stop$/).click();
        await button(page, "Stop the turn").click();
        await seeEnd(page);
      }
      check((moving["false"] ?? []).length > 0, "the page has no animation, so this flow shows nothing");
      check(
        (moving["true"] ?? []).length === 0,
        `with reduced motion, these move: ${(moving["true"] ?? []).join(", ")}`,
      );
    },
  },
  {
    name: "the title of the page says what it shows",
    run: async ({ open, server }) => {
      const { page } = await open();
      await startSession(page, "A title for the tab");
      await until(
        "the title names the session",
        async () => page.title(),
        (title) => title.includes("A title for the tab"),
      );
      for (const path of ["overview", "waiting", "playground"]) {
        await page.goto(server.studio(path));
        await until(
          `the title names ${path}`,
          async () => page.title(),
          (title) => title.toLowerCase().includes(path),
        );
      }
    },
  },
];
