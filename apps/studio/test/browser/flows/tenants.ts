// An operator reaches the sessions of tenants: finds a stuck turn, reads why it is stuck, and repairs it, in the studio
// alone.

import type { Flow } from "../flow.ts";
import type { Server } from "../server.ts";
import type { Locator } from "playwright-core";

import { join } from "node:path";

import { button, seeEnd, seeText, serverDown, talk, text, unauthorized } from "../flow.ts";
import { check, until } from "../watched-page.ts";

const parkingConfig = join(import.meta.dirname, "../parking.config.ts");
const operatorToken = "operator-token-that-is-long-0123456789";

async function post({ url }: Server, path: string, token: string, body: object): Promise<string> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  check(answer.ok, `POST /${path} answered ${answer.status}`);
  return answer.text();
}

export const tenantFlows: readonly Flow[] = [
  {
    name: "an operator finds, explains and repairs stuck turns of a tenant",
    run: async ({ open, start }) => {
      const server = await start({ database: "operator.db", config: parkingConfig, token: operatorToken });
      const made: { readonly token: string } = JSON.parse(
        await post(server, "keys", operatorToken, { name: "ada", tenant: "shop" }),
      );
      const orders = [
        { id: "order-17", input: "Use hold one" },
        { id: "order-18", input: "Use hold two" },
      ];
      for (const order of orders) await post(server, "sessions", made.token, order);

      const watched = await open("", server);
      const { page } = watched;
      watched.allowFailures(unauthorized);
      await page.getByLabel("Access token").fill(operatorToken);
      await page.keyboard.press("Enter");
      await page.getByText("No sessions in default tenant").waitFor();
      watched.problems.length = 0;
      watched.allowFailures(null);

      const choice = page.getByLabel("Tenant", { exact: true });
      check((await text(choice)) === "default tenant shop", `the tenants are ${await text(choice)}`);
      /** Requests of the page that do not name the tenant. */
      const strays: string[] = [];
      page.on("request", (request) => {
        const { pathname } = new URL(request.url());
        const isOfTenant = request.headers()["everturn-tenant"] === "shop";
        if (!isOfTenant && !pathname.startsWith("/studio/") && pathname !== "/server") strays.push(pathname);
      });
      await choice.selectOption("shop");
      await page.waitForURL(/\?tenant=shop$/);
      strays.length = 0;
      await page.getByText("Tenant shop").waitFor();
      for (const { id, input } of orders) {
        await page.locator(".list-row", { hasText: input }).click();
        await page.waitForURL(`**/s/${id}?tenant=shop`);
        await seeText(page, "holding");
      }

      // The process dies with both turns, and no other may take them over: they are parked.
      watched.allowFailures(serverDown);
      await server.kill();
      await server.restart();
      // A new visit begins outside of the tenant. The sums say which tenant has turns that did not end well.
      await page.goto(server.studio("overview"));
      const tenants = page.getByRole("region", { name: "Tenants" });
      await tenants.getByRole("row", { name: /^shop 2 2 \(100 %\)/ }).waitFor({ timeout: 90_000 });
      await tenants.getByRole("link", { name: "shop" }).click();
      await page.waitForURL(/overview\?tenant=shop$/);
      check(strays.length > 0, "the requests before the switch name the tenant");
      strays.length = 0;
      const parked = page.locator("section.panel", { has: page.getByRole("heading", { name: "Parked turns" }) });
      await until(
        "both turns are parked",
        async () => button(parked, "Recover").count(),
        (count) => count === 2,
      );
      watched.allowFailures(null);

      // Why, and with the step again.
      await parked.getByRole("link", { name: "Use hold one" }).click();
      const why = talk(page).getByRole("region", { name: "parked" });
      await why.getByText("takeover_limit", { exact: true }).waitFor();
      check(/taken over once/.test(await text(why)), `the reason is ${await text(why)}`);
      server.signal("let-go");
      await button(why, "Recover").click();
      await seeText(page, "The tool answered: let go");
      await seeEnd(page);
      // Without the step: the turn is ended.
      await page.getByRole("link", { name: "Waiting" }).click();
      const row: Locator = parked.getByRole("listitem").filter({ hasText: "Use hold two" });
      await button(row, "End the turn").click();
      await parked.waitFor({ state: "detached" });
      check(strays.length === 0, `requests without the tenant: ${strays.join(", ")}`);

      // The tenant itself has no switch, and the link of the operator shows its own sessions.
      const watchedOther = await open("?tenant=shop", server);
      const { page: other } = watchedOther;
      watchedOther.allowFailures(unauthorized);
      await other.getByLabel("Access token").fill(made.token);
      await other.keyboard.press("Enter");
      await other.locator(".list-row", { hasText: "Use hold one" }).waitFor();
      check((await other.getByLabel("Tenant", { exact: true }).count()) === 0, "a tenant can switch");
      watchedOther.problems.length = 0;
    },
  },
];
