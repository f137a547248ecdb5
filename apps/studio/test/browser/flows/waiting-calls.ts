// Calls that wait for a person, and turns that no process continues: forms of approvals with every kind of field,
// manual tools, tools whose outcome a crash leaves unknown, and parked turns.

import type { Flow } from "../flow.ts";
import type { Locator, Page } from "playwright-core";

import { join } from "node:path";

import { button, read, seeEnd, seeText, serverDown, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";

export const testConfig = join(import.meta.dirname, "../tools.config.ts");
const parkingConfig = join(import.meta.dirname, "../parking.config.ts");

/** Reads the order that the tool was run with. */
async function placedOrder(address: { readonly url: string }, id: string): Promise<unknown> {
  const messages = await read(address, `sessions/${id}/messages`);
  const order = /ordered: (\{.*?\})"/.exec(messages)?.[1];
  check(order !== undefined, "no order was placed");
  return JSON.parse(JSON.parse(`"${order}"`));
}

async function seePageText(page: Page, part: string): Promise<void> {
  await until(
    `the page shows ${part}`,
    async () => text(page.locator("body")),
    (whole) => whole.includes(part),
  );
}

export const waitingFlows: readonly Flow[] = [
  {
    name: "edit arguments in a form with nested objects, choices, lists, numbers and switches",
    run: async ({ open, start }) => {
      const server = await start({ database: "form.db", config: testConfig });
      const { page } = await open("", server);
      const id = await startSession(page, "Use place_order");
      const form = talk(page);
      await button(form, /^Approve$/).waitFor();
      // A nested object is a group of fields with its name.
      const customer = form.getByRole("group", { name: "customer" });
      await customer.getByLabel(/^name/).fill("Grace");
      await customer.getByRole("group", { name: "address" }).getByLabel(/^city/).fill("Porto");
      await customer.getByLabel(/^isBusiness/).selectOption("true");
      await form.getByLabel(/^priority/).selectOption({ label: "high" });
      // One item is added with the keyboard.
      const items = form.getByLabel(/^items/);
      await items.press("Control+End");
      await items.press("Enter");
      await items.pressSequentially("screen");
      await form.getByLabel(/^quantities/).fill("4\n5\n6");
      await form.getByLabel(/^discount/).fill("0.25");
      await form.getByLabel(/^notify/).selectOption("false");
      // The form itself refuses what it can check.
      await form.getByLabel(/^boxes/).fill("0");
      await form.getByText("must be at least 1", { exact: true }).waitFor();
      check(await button(form, "Approve edited").isDisabled(), "an invalid number can be approved");
      await form.getByLabel(/^boxes/).fill("1.5");
      await form.getByText("must be a whole number", { exact: true }).waitFor();
      await form.getByLabel(/^boxes/).fill("7");
      await button(form, "Approve edited").click();
      await seeText(page, "The tool answered");
      await seeEnd(page);
      const order = JSON.stringify(await placedOrder(server, id));
      const expected = JSON.stringify({
        customer: { name: "Grace", address: { street: "Main Street 1", city: "Porto" }, isBusiness: true },
        priority: "high",
        items: ["keyboard", "mouse", "screen"],
        quantities: [4, 5, 6],
        discount: 0.25,
        boxes: 7,
        notify: false,
        code: "AB-12",
      });
      check(order === expected, `the tool got ${order} and not ${expected}`);
    },
  },
  {
    name: "the server refuses edited arguments, and the form says why",
    run: async ({ open, start }) => {
      const server = await start({ database: "refused.db", config: testConfig });
      const watched = await open("", server);
      const { page } = watched;
      const id = await startSession(page, "Use place_order");
      const form = talk(page);
      // The form does not check patterns.
      await form.getByLabel(/^code/).fill("wrong");
      watched.allowFailures(/\b(?:400|409|422)\b/);
      await button(form, "Approve edited").click();
      await seePageText(page, "code");
      const toast = page.locator(".toast.error");
      await toast.waitFor();
      const reason = await text(toast);
      check(/code/.test(reason) && /pattern|match/.test(reason), `the error does not name the field: ${reason}`);
      watched.allowFailures(null);
      // The edited value stays, and can be corrected.
      check((await form.getByLabel(/^code/).inputValue()) === "wrong", "the edited value is lost");
      await button(form, "Reset").click();
      check((await form.getByLabel(/^code/).inputValue()) === "AB-12", "Reset does not restore a text");
      await form.getByLabel(/^boxes/).fill("9");
      await button(form, "Reset").click();
      check((await form.getByLabel(/^boxes/).inputValue()) === "3", "Reset does not restore a number");
      await form.getByLabel(/^code/).fill("CD-34");
      await button(form, "Approve edited").click();
      await seeText(page, "The tool answered");
      const order = JSON.stringify(await placedOrder(server, id));
      check(order.includes('"code":"CD-34"') && order.includes('"boxes":3'), `the tool got ${order}`);
    },
  },
  {
    name: "enter the result of a manual tool, as text and as JSON",
    run: async ({ open, start }) => {
      const server = await start({ database: "manual.db", config: testConfig });
      const { page } = await open("", server);
      await startSession(page, "Use scan_badge");
      await talk(page).getByLabel("Result of the tool").fill("Badge 17, Ada");
      await button(talk(page), "Send result").click();
      await seeText(page, "The tool answered: Badge 17, Ada");
      await seeEnd(page);
      await page.getByRole("link", { name: "New session" }).click();
      const id = await startSession(page, "Use scan_badge again");
      await talk(page).getByLabel("Result of the tool").fill('{"badge": 17');
      await talk(page).getByLabel("as JSON").check();
      await talk(page).getByText("Not JSON").waitFor();
      check(await button(talk(page), "Send result").isDisabled(), "a text that is not JSON can be sent");
      await talk(page).getByLabel("Result of the tool").fill('{"badge": 17, "holder": {"name": "Ada"}}');
      await button(talk(page), "Send result").click();
      await seeText(page, "The tool answered");
      await seeEnd(page);
      const messages = await read(server, `sessions/${id}/messages`);
      check(/holder/.test(messages), "the result is not stored");
    },
  },
  {
    name: "decide about a tool whose outcome is unknown after a crash",
    run: async ({ open, start }) => {
      const server = await start({ database: "unknown.db", config: testConfig });
      const watched = await open("", server);
      const { page } = watched;
      const ids: string[] = [];
      for (const name of ["one", "two", "three"]) {
        ids.push(await startSession(page, `Use transfer ${name}`));
        // The tool has begun: its start is recorded before it runs.
        await page.locator(".tool-card").first().waitFor();
        await page.getByRole("link", { name: "New session" }).click();
      }
      watched.allowFailures(serverDown);
      await server.kill();
      const connection = page.getByRole("banner").getByText("reconnecting");
      await connection.waitFor();
      server.signal("bank-answers");
      await server.restart();
      await connection.waitFor({ state: "detached", timeout: 60_000 });
      const visit = async (index: number): Promise<void> => {
        await page.goto(server.studio(`s/${ids[index] ?? ""}`));
        await button(talk(page), "Run it again").waitFor({ timeout: 60_000 });
      };
      await visit(0);
      watched.allowFailures(null);
      await talk(page).getByLabel("Result of the tool").fill("The bank says: done");
      await button(talk(page), "Send result").click();
      await seeText(page, "The tool answered: The bank says: done");
      await visit(1);
      await button(talk(page), "Run it again").click();
      await seeText(page, "250 were transferred to Ada");
      await visit(2);
      await button(talk(page), "Do not run it").click();
      await seeText(page, "The tool answered:");
      check(!(await text(talk(page))).includes("250 were transferred"), "a denied call was run");
      const waiting = await read(server, "sessions?status=waiting");
      check(!ids.some((id) => waiting.includes(id)), "a decided session still waits");
    },
  },
  {
    name: "recover parked turns in the overview",
    run: async ({ open, start }) => {
      const server = await start({ database: "parked.db", config: parkingConfig });
      const watched = await open("", server);
      const { page } = watched;
      const ids: string[] = [];
      for (const name of ["one", "two"]) {
        ids.push(await startSession(page, `Use hold ${name}`));
        await seeText(page, "holding");
        await page.getByRole("link", { name: "New session" }).click();
      }
      watched.allowFailures(serverDown);
      await server.kill();
      await server.restart();
      await page.goto(server.studio("overview"));
      const parked = page.locator("section.panel", { has: page.getByRole("heading", { name: "Parked turns" }) });
      await until(
        "both turns are parked",
        async () => button(parked, "Recover").count(),
        (count) => count === 2,
        90_000,
      );
      watched.allowFailures(null);
      server.signal("let-go");
      const row = (name: string): Locator => parked.getByRole("listitem").filter({ hasText: `Use hold ${name}` });
      await button(row("one"), "Recover").click();
      await row("one").waitFor({ state: "detached" });
      await button(row("two"), "End the turn").click();
      await parked.getByText("None.").waitFor();
      await page.goto(server.studio(`s/${ids[0] ?? ""}`));
      await seeText(page, "The tool answered: let go");
      await seeEnd(page);
      await page.goto(server.studio(`s/${ids[1] ?? ""}`));
      await seeText(page, "Tool execution cancelled");
      await button(talk(page), "Continue").click();
      await seeText(page, "The tool answered: [Tool execution cancelled]");
    },
  },
];
