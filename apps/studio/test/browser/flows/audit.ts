// An administrator reads the audit log: filters, pages, and the export; others have no link to it.

import type { Flow } from "../flow.ts";
import type { Server } from "../server.ts";
import type { Page } from "playwright-core";

import { readFileSync } from "node:fs";

import { button, text, unauthorized } from "../flow.ts";
import { check, until } from "../watched-page.ts";

const operatorToken = "operator-token-that-is-long-0123456789";

async function ask({ url }: Server, method: string, path: string, token: string, body: object | null = null) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", prefer: "wait=30" };
  const init = body === null ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(`${url}/${path}`, { method, headers, ...init });
  check(answer.ok, `${method} /${path} answered ${answer.status}`);
  return answer.text();
}

async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Access token").fill(token);
  await page.keyboard.press("Enter");
}

/** Sees that the table has so many rows. */
const seeRows = (page: Page, count: number): Promise<unknown> =>
  until(
    `the table has ${count} rows`,
    async () => page.locator(".audit-rows tbody tr").count(),
    (rows) => rows === count,
  );

export const auditFlows: readonly Flow[] = [
  {
    name: "an administrator filters, pages and exports the audit log",
    run: async ({ open, start }) => {
      const server = await start({ database: "audit.db", token: operatorToken });
      const makeKey = async (name: string, tenant: string): Promise<string> => {
        const made: { readonly token: string } = JSON.parse(
          await ask(server, "POST", "keys", operatorToken, { name, tenant }),
        );
        return made.token;
      };
      const ada = await makeKey("ada", "shop");
      for (let count = 0; count < 59; count += 1) await makeKey(`user ${count}`, "bank");
      await ask(server, "POST", "sessions", ada, { id: "order-1", input: "hello" });
      await ask(server, "DELETE", "sessions/order-1", ada);

      const watched = await open("", server);
      const { page } = watched;
      watched.allowFailures(unauthorized);
      await logIn(page, operatorToken);
      await page.getByRole("link", { name: "Audit" }).click();
      await seeRows(page, 50);
      watched.problems.length = 0;
      watched.allowFailures(null);
      const first = page.locator(".audit-rows tbody tr").first();
      check(/delete ada shop order-1/.test(await text(first)), `the newest row is ${await text(first)}`);

      // Pages, which are addresses.
      await page.getByRole("link", { name: "Older" }).click();
      await seeRows(page, 11);
      check((await page.getByRole("link", { name: "Older" }).count()) === 0, "there is no older page");
      await page.goBack();
      await seeRows(page, 50);

      // The filter is in the address, and a load keeps it.
      const filter = page.getByRole("form", { name: "Filter" });
      await filter.getByLabel("Tenant").fill("bank");
      await filter.getByLabel("Action").selectOption("key_create");
      await filter.getByLabel("Actor").fill("no such actor");
      await button(filter, "Filter").click();
      await page.getByText("The audit log has no such rows.").waitFor();
      await filter.getByLabel("Actor").fill("");
      await page.keyboard.press("Enter");
      await seeRows(page, 50);
      await page.getByRole("link", { name: "Older" }).click();
      await seeRows(page, 9);
      await page.getByRole("link", { name: "Newest" }).click();
      await seeRows(page, 50);
      await button(filter, "Clear").click();
      await filter.getByLabel("Actor").fill("ada");
      await page.keyboard.press("Enter");
      await seeRows(page, 1);
      await page.reload();
      await seeRows(page, 1);
      check((await filter.getByLabel("Actor").inputValue()) === "ada", "the form shows the filter after a load");
      await filter.getByLabel("Until").fill("2020-01-01T00:00");
      await button(filter, "Filter").click();
      await page.getByText("The audit log has no such rows.").waitFor();
      await filter.getByLabel("Until").fill("");
      await filter.getByLabel("From").fill("2020-01-01T00:00");
      await button(filter, "Filter").click();
      await seeRows(page, 1);
      await button(filter, "Clear").click();
      await seeRows(page, 50);

      const [download] = await Promise.all([page.waitForEvent("download"), button(page, "Export").click()]);
      const lines = readFileSync(await download.path(), "utf8")
        .trim()
        .split("\n");
      check(lines.length === 61, `${lines.length} rows were exported`);
      check(JSON.parse(lines[0] ?? "").action === "delete", `the first line is ${lines[0]}`);

      // On a phone nothing but the table scrolls sideways, and the controls are large enough for a finger.
      await page.setViewportSize({ width: 390, height: 844 });
      const width = await page.evaluate<number>("document.documentElement.scrollWidth");
      check(width <= 390, `the page is ${width} pixels wide`);
      for (const control of await filter.locator("input, select, button").all()) {
        const { height = 0 } = (await control.boundingBox()) ?? {};
        check(height >= 44, `a control of the filter is ${height} pixels high`);
      }

      // A customer has no link to it, and the address shows nothing.
      const watchedOther = await open("audit", server);
      const { page: other } = watchedOther;
      watchedOther.allowFailures(unauthorized);
      await logIn(other, ada);
      await other.getByText("Only operators that name no tenant").waitFor();
      check((await other.getByRole("link", { name: "Audit" }).count()) === 0, "a customer has the link");
      watchedOther.problems.length = 0;
    },
  },
];
