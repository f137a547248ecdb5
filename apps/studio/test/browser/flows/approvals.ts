// What a person sees and does when a call waits for a decision: all arguments are shown for what they are, fields keep
// their text and the focus, no single key decides, what cannot be read is not sent, and a running call shows the
// arguments that run.

import type { Flow } from "../flow.ts";
import type { Locator, Page, Route } from "playwright-core";

import { join } from "node:path";

import { button, read, seeEnd, seeText, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";

const config = join(import.meta.dirname, "../tools.config.ts");
const approve = (page: Page): Locator => button(talk(page), /^Approve( edited)?$/);

/** Checks that the call still waits, and that no decision about it is stored. */
async function checkWaits(server: { readonly url: string }, id: string): Promise<void> {
  const { session }: { readonly session: { readonly pendingToolCalls: readonly { readonly decision: unknown }[] } } =
    JSON.parse(await read(server, `sessions/${id}`));
  const [call] = session.pendingToolCalls;
  check(call !== undefined && call.decision === null, `the call is decided: ${JSON.stringify(call)}`);
}

/** The arguments that the tool `pay` ran with. */
async function paidArguments(server: { readonly url: string }, id: string): Promise<unknown> {
  const messages = await read(server, `sessions/${id}/messages`);
  const paid = /"paid: (\{(?:\\.|[^"\\])*\})"/s.exec(messages)?.[1];
  check(paid !== undefined, `nothing was paid: ${messages}`);
  return JSON.parse(JSON.parse(`"${paid}"`));
}

type Waiting = {
  readonly session: { readonly pendingToolCalls: readonly { readonly id: string; readonly digest: string }[] };
};

async function post(server: { readonly url: string }, path: string, body: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${server.url}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  check(response.ok, `POST /${path} answered ${response.status}: ${await response.text()}`);
}

/** Denies the first waiting call as another client does, and waits until no turn is open. */
async function denyCall(server: { readonly url: string }, id: string): Promise<void> {
  const { session }: Waiting = JSON.parse(await read(server, `sessions/${id}`));
  const [call] = session.pendingToolCalls;
  if (call === undefined) throw new Error("no call waits");
  await post(server, `sessions/${id}/decisions`, { toolCallId: call.id, digest: call.digest, type: "deny" });
  await untilIdle(server, id);
}

/** Sends a message as another client does, and waits until no turn is open. */
async function sendMessage(server: { readonly url: string }, id: string, message: string): Promise<void> {
  await post(server, `sessions/${id}/send`, { text: message });
  await untilIdle(server, id);
}

async function untilIdle(server: { readonly url: string }, id: string): Promise<void> {
  await until(
    "no turn is open",
    async () => read(server, `sessions/${id}`),
    (session) => session.includes('"openTurn":null'),
  );
}

async function isFocused(field: Locator): Promise<boolean> {
  return field.evaluate((element) => element.matches(":focus"));
}

async function hiddenPixels(field: Locator): Promise<number> {
  return field.evaluate((element) => element.scrollHeight - element.clientHeight);
}

async function scroll(page: Page, to: "start" | "end"): Promise<void> {
  const talkList = page.locator(".talk");
  await talkList.evaluate((element, isEnd) => {
    element.scrollTop = isEnd ? element.scrollHeight : 0;
  }, to === "end");
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
}

/** Checks that the card of a running call shows the edited arguments, and those of the model. */
async function seeEditedArguments(page: Page): Promise<void> {
  const card = page.locator(".tool-card");
  await card.getByText("running", { exact: true }).waitFor();
  await card.getByText("edited arguments").waitFor();
  const running = await text(card.locator("[data-arguments='run']"));
  check(running.includes("150.5") && !/\b500\b/.test(running), `the card shows ${running}`);
  const written = await text(card.locator("[data-arguments='model']"));
  check(/\b500\b/.test(written), `the card does not show the arguments of the model: ${written}`);
}

function rows(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `row ${index + 1}`);
}

/** Everything that the form of an approval shows: its text, and the texts of its fields. */
async function shownIn(form: Locator): Promise<string> {
  const fields = await form.locator("textarea, input").all();
  return [await form.innerText(), ...(await Promise.all(fields.map(async (field) => field.inputValue())))].join(" ");
}

export const approvalFlows: readonly Flow[] = [
  {
    name: "a field keeps its text and the focus while a long text is typed",
    run: async ({ open, start }) => {
      const server = await start({ database: "long-note.db", config });
      const { page } = await open("", server);
      const id = await startSession(page, "Use pay");
      await approve(page).waitFor();
      const note = talk(page).getByLabel(/^note/);
      await note.fill("");
      const typed = "Please do not pay this yet, and ask the accounting department about the landlord first.";
      await note.pressSequentially(typed);
      check((await note.inputValue()) === typed, `the field contains ${JSON.stringify(await note.inputValue())}`);
      check(await isFocused(note), "the field has lost the focus");
      await checkWaits(server, id);
      // A line break neither.
      await note.press("Enter");
      await page.keyboard.type("and decide");
      check((await note.inputValue()) === `${typed}\nand decide`, "the second line is lost");
      // All of it is visible without scrolling inside of the field.
      const hidden = await hiddenPixels(note);
      check(hidden <= 1, `${hidden} pixels of the text are hidden`);
    },
  },
  {
    name: "a form has its fields from the beginning, also if the schemas arrive late",
    run: async ({ open, start }) => {
      const server = await start({ database: "late-schema.db", config });
      const { page } = await open("", server);
      const id = await startSession(page, "Use pay");
      await approve(page).waitFor();
      const held: Route[] = [];
      await page.route(/\/engines(?:\?|$)/, (route) => void held.push(route));
      await page.reload();
      const form = page.locator(".approval");
      await form.getByText("Loading").waitFor();
      check((await form.locator("textarea, input").count()) === 0, "fields are shown that will be replaced");
      check((await approve(page).count()) === 0, "a call can be approved before it is shown");
      for (const route of held) await route.continue();
      await talk(page).getByLabel(/^note/).fill("kept");
      await checkWaits(server, id);
    },
  },
  {
    name: "no single key decides about a call or stops a turn",
    run: async ({ open, start }) => {
      const server = await start({ database: "single-keys.db", config });
      const { page } = await open("", server);
      const id = await startSession(page, "Use pay");
      await approve(page).waitFor();
      const address = page.url();
      for (const key of "abcdefghijklmnopqrstuvwxyzADXY0123456789") {
        await page.evaluate("document.activeElement?.blur()");
        await page.keyboard.press(key);
        await page.keyboard.press("Space");
        if (page.url() !== address) await page.goto(address);
        check((await page.getByRole("dialog").count()) === 0, `the key ${key} opens a dialog`);
      }
      await approve(page).waitFor();
      await checkWaits(server, id);
      check((await page.getByLabel("Reason, which the model reads").count()) === 0, "a key opens the denial");
      await page.goto(server.studio());
      const held = await startSession(page, "Use hold");
      await seeText(page, "holding");
      await page.evaluate("document.activeElement?.blur()");
      await page.keyboard.press("x");
      await page.keyboard.press("Space");
      check((await page.getByRole("dialog").count()) === 0, "the key x opens a dialog");
      server.signal("let-go");
      await seeText(page, "The tool answered: let go");
      check((await read(server, `sessions/${held}/messages`)).includes("let go"), "the turn was stopped");
      // The help lists no such key.
      await page.keyboard.press("?");
      const help = await text(page.getByRole("dialog"));
      check(!/Approve the call|Deny the call|Stop the turn/.test(help), `the help names keys that decide: ${help}`);
    },
  },
  {
    name: "a text that cannot be read is not sent",
    run: async ({ open, start }) => {
      const server = await start({ database: "unread.db", config });
      server.signal("bank-answers");
      const { page } = await open("", server);
      const id = await startSession(page, "Use pay");
      const limits = talk(page).getByLabel(/^limits/);
      // The keys that approve in a field press a button where they are on one.
      await button(talk(page), "Deny with reason…").press("Control+Enter");
      await checkWaits(server, id);
      if ((await button(talk(page), "Back").count()) > 0) await button(talk(page), "Back").click();
      await limits.fill('{"daily": 10');
      check(await approve(page).isDisabled(), "a text that is not JSON can be approved");
      await talk(page).locator(".field", { hasText: "limits" }).getByText("Not JSON").waitFor();
      await limits.press("Control+Enter");
      await checkWaits(server, id);
      await limits.fill('{"daily": 10}');
      await button(talk(page), "Approve edited").click();
      await seeText(page, "The tool answered");
      const paid = JSON.stringify(await paidArguments(server, id));
      check(paid.includes('"limits":{"daily":10}'), `the tool got ${paid}`);
      await page.goto(server.studio());
      const other = await startSession(page, "Use pay, without a schema that a form can show");
      await talk(page)
        .getByLabel(/^amount/)
        .fill("12,5");
      await talk(page).getByText("must be a number", { exact: true }).waitFor();
      check(await approve(page).isDisabled(), "a text that is not a number can be approved");
      await checkWaits(server, other);
    },
  },
  {
    name: "a running call shows the arguments that run",
    run: async ({ open, start }) => {
      const server = await start({ database: "running.db", config });
      const watched = await open("", server);
      const { page } = watched;
      const id = await startSession(page, "Use pay");
      await talk(page)
        .getByLabel(/^amount/)
        .fill("150.5");
      await button(talk(page), "Approve edited").click();
      await seeEditedArguments(page);
      await page.reload();
      await seeEditedArguments(page);
      await seeEditedArguments((await open(`s/${id}`, server)).page);
      server.signal("bank-answers");
      await seeText(page, "The tool answered");
      await seeEnd(page);
      await page.locator(".tool-card details summary").first().click();
      await page.locator("[data-arguments='model']", { hasText: "500" }).waitFor();
    },
  },
  {
    name: "a form keeps texts and the focus when the reader scrolls away or the session is read again",
    run: async ({ open, start }) => {
      const server = await start({ database: "kept-texts.db", config });
      const { page } = await open("", server);
      const lines = Array.from({ length: 400 }, (_, index) => `Paragraph ${index}.`).join("\n\n");
      await startSession(page, lines);
      await seeText(page, "I have read 1 messages");
      for (const prompt of [lines, lines, lines, lines, lines, lines, lines, lines, "Use pay"]) {
        await page.getByLabel("Message", { exact: true }).fill(prompt);
        await page.getByLabel("Message", { exact: true }).press("Enter");
        await until(
          "the message is sent",
          async () => page.getByLabel("Message", { exact: true }).inputValue(),
          (rest) => rest === "",
        );
        await seeEnd(page);
      }
      await until(
        "the end is in view",
        async () => scroll(page, "end").then(async () => approve(page).count()),
        (count) => count === 1,
      );
      const limits = talk(page).getByLabel(/^limits/);
      await limits.fill('{"daily": ');
      // A focused field stays in the document.
      await scroll(page, "start");
      await page.keyboard.type("12");
      await scroll(page, "end");
      check((await limits.inputValue()) === '{"daily": 12', `the field contains ${await limits.inputValue()}`);
      check(await isFocused(limits), "the field has lost the focus");
      // Without the focus the form is removed, and its texts come back.
      await button(talk(page), "Deny with reason…").click();
      await page.getByLabel("Reason, which the model reads").fill("Too ea");
      await page.evaluate("document.activeElement?.blur()");
      await scroll(page, "start");
      await limits.waitFor({ state: "detached" });
      await scroll(page, "end");
      await limits.waitFor();
      check((await limits.inputValue()) === '{"daily": 12', `the text became ${await limits.inputValue()}`);
      const reason = page.getByLabel("Reason, which the model reads");
      check((await reason.inputValue()) === "Too ea", "the reason is lost");
      // An idle session is read again within a minute (data/pulse.ts), and the page then draws the form again.
      await reason.focus();
      const reads = page.waitForResponse(/\/sessions\/[^/?]+\?/, { timeout: 90_000 });
      await page.keyboard.type("rly");
      await reads;
      check(
        (await reason.inputValue()) === "Too early" && (await isFocused(reason)),
        "the reason has lost text or focus",
      );
      await button(talk(page), "Back").click();
      check(await isFocused(button(talk(page), "Deny with reason…")), "Back leaves the focus on the page");
    },
  },
  {
    name: "all arguments are shown, also those that the schema does not name",
    run: async ({ open, start }) => {
      const server = await start({ database: "extra.db", config });
      server.signal("bank-answers");
      const { page } = await open("", server);
      const input = {
        amount: 5,
        to: "the landlord",
        order: { id: "A-1", payTo: "ATTACKER", amountOverride: 99_999_900, deep: { er: { still: "HIDDEN" } } },
        bcc: "EVIL",
        lines: ["one\ntwo", "three"],
      };
      const id = await startSession(page, `Use pay ${JSON.stringify(input)}`);
      await approve(page).waitFor();
      const form = talk(page).locator(".approval");
      const order = form.getByRole("group", { name: "order" });
      check((await order.getByLabel(/^payTo/).inputValue()).includes("ATTACKER"), "payTo is not shown");
      check((await order.getByLabel(/^amountOverride/).inputValue()) === "99999900", "amountOverride is not shown");
      check((await order.getByLabel(/^deep/).inputValue()).includes("HIDDEN"), "deep is not shown");
      check((await form.getByLabel(/^bcc/).inputValue()).includes("EVIL"), "bcc is not shown");
      check(
        (await form.getByText("not in the schema").count()) === 4,
        "fields that the schema does not name are not marked",
      );
      // An item with a line break does not look like two items.
      check((await form.getByLabel(/^lines/).inputValue()).includes(String.raw`one\ntwo`), "an item looks like two");
      await approve(page).click();
      await seeText(page, "The tool answered");
      const paid = JSON.stringify(await paidArguments(server, id));
      check(paid === JSON.stringify(input), `the tool got ${paid}`);
    },
  },
  {
    name: "a long value is shown completely before it can be approved",
    run: async ({ open, start }) => {
      const server = await start({ database: "long-values.db", config });
      server.signal("bank-answers");
      const { page } = await open("", server);
      const shown = await startSession(page, `Use pay ${JSON.stringify({ amount: 1, to: "Ada", lines: rows(25) })}`);
      await approve(page).waitFor();
      const lines = talk(page).getByLabel(/^lines/);
      const hidden = await hiddenPixels(lines);
      check(hidden <= 1, `${hidden} pixels of 25 rows are hidden`);
      check(await approve(page).isEnabled(), "25 rows cannot be approved");
      await checkWaits(server, shown);
      await page.goto(server.studio());
      const id = await startSession(page, `Use pay ${JSON.stringify({ amount: 1, to: "Ada", lines: rows(87) })}`);
      await approve(page).waitFor();
      check(await approve(page).isDisabled(), "a call whose arguments are not all shown can be approved");
      await seeText(page, "Not all of lines is shown");
      await seeText(page, "57 of 87 rows are not shown");
      await button(talk(page), "Show all 87 rows").click();
      check(await isFocused(lines), "the focus is lost when all rows are shown");
      check((await lines.inputValue()).endsWith("row 87"), "the last row is not shown");
      const still = await hiddenPixels(lines);
      check(still <= 1, `${still} pixels of 87 rows are hidden`);
      // Where the button is, the tool that runs is in view too.
      await approve(page).scrollIntoViewIfNeeded();
      const runs = await page.locator(".everturn-runs", { hasText: "pay" }).boundingBox();
      const pressed = await approve(page).boundingBox();
      const distance = runs === null || pressed === null ? Infinity : pressed.y - runs.y;
      check(distance > 0 && distance < 60, `the name of the tool is ${distance} pixels above the button`);
      await approve(page).click();
      await seeText(page, "The tool answered");
      check(JSON.stringify(await paidArguments(server, id)).includes("row 87"), "the last row was not sent");
    },
  },
  {
    name: "invisible and bidirectional characters of arguments are shown",
    run: async ({ open, start }) => {
      const server = await start({ database: "bidi-arguments.db", config });
      server.signal("bank-answers");
      const { page } = await open("", server);
      const input = {
        amount: 5,
        to: "DE00 \u202E99 0000\u202C",
        note: "re\u200Bnt\u{E0041}",
        "bc\u2066c": "a\uFEFFb",
        lines: ["x\u200Fy"],
        limits: { "d\u00ADaily": "\u2028" },
      };
      const id = await startSession(page, `Use pay ${asciiJson(input)}`);
      await approve(page).waitFor();
      const whole = await shownIn(page.locator(".approval"));
      for (const part of [
        "DE00 ⟨U+202E⟩99 0000⟨U+202C⟩",
        "re⟨U+200B⟩nt⟨U+E0041⟩",
        "bc⟨U+2066⟩c",
        String.raw`a\ufeffb`,
        String.raw`x\u200fy`,
        String.raw`d\u00adaily`,
        String.raw`\u2028`,
      ]) {
        check(whole.includes(part), `the form does not show ${part}: ${whole}`);
      }
      check(
        !/[\u202A-\u202E\u2066-\u2069\u200B-\u200F\u00AD\uFEFF\u2028]/.test(whole),
        "an invisible character is shown as it is",
      );
      // What is approved is what the model wrote.
      await approve(page).click();
      await seeText(page, "The tool answered");
      check(JSON.stringify(await paidArguments(server, id)) === JSON.stringify(input), "the tool got other arguments");
    },
  },
  {
    name: "the call of a child agent is shown, and not the tool around it",
    run: async ({ open, start }) => {
      const server = await start({ database: "inner.db", config });
      const { page } = await open("", server);
      const id = await startSession(page, "Use summarize_mail");
      await approve(page).waitFor();
      const form = page.locator(".approval");
      const whole = await shownIn(form);
      for (const part of [
        "summarize_mail → wire_transfer",
        '"the landlord"',
        "500",
        '"mail\\u202e"',
        "not safe to run twice",
      ]) {
        check(whole.includes(part), `the form does not show ${part}: ${whole}`);
      }
      // The server accepts no other arguments for it.
      check((await form.locator("textarea, input").count()) === 0, "the arguments of a nested call can be edited");
      const { page: other } = await open("waiting", server);
      const row = other.locator(".inbox-row", { hasText: "wire_transfer" });
      await row.waitFor();
      check((await text(row)).includes("summarize_mail → wire_transfer"), `the waiting page shows ${await text(row)}`);
      check((await text(row)).includes("the landlord"), `the waiting page shows ${await text(row)}`);
      const listed = await text(page.locator(".list-row", { hasText: "Use summarize_mail" }));
      check(listed.includes("wire_transfer"), `the list of sessions shows ${listed}`);
      await approve(page).click();
      await seeText(page, "The tool answered: transferred: 500 to the landlord");
      check((await read(server, `sessions/${id}/messages`)).includes("500 to the landlord"), "another call ran");
    },
  },
  {
    name: "a page that has missed a change cannot approve what it does not show",
    run: async ({ open, start }) => {
      const server = await start({ database: "stale.db", config });
      server.signal("bank-answers");
      const watched = await open("", server);
      const { page, context } = watched;
      const id = await startSession(page, 'Use pay, first id {"amount": 500, "to": "the landlord"}');
      await approve(page).waitFor();
      watched.allowFailures(/ERR_INTERNET_DISCONNECTED|Failed to fetch|409/);
      await context.setOffline(true);
      // Another person denies the call, and the next one has the same id.
      await denyCall(server, id);
      await sendMessage(server, id, 'Use pay, first id {"amount": 99999900, "to": "ATTACKER"}');
      // The decision is sent before the page has read the session again.
      const held = (url: URL): boolean => url.pathname === `/sessions/${id}`;
      await page.route(held, (route) => route.abort("internetdisconnected"));
      await context.setOffline(false);
      check((await talk(page).getByLabel(/^to/).inputValue()) === "the landlord", "the page has read the session");
      const refused = page.waitForResponse((response) => response.url().endsWith("/decisions"));
      await approve(page).click();
      check((await refused).status() === 409, `the decision was answered ${(await refused).status()}`);
      await page.locator(".toast.error", { hasText: "arguments" }).waitFor();
      await talk(page).getByText("The call has changed").waitFor();
      check(await approve(page).isDisabled(), "the refused call can be approved again");
      await checkWaits(server, id);
      // The page reads the session, shows the call as it is now, and the person looks again.
      await page.unroute(held);
      await until(
        "the call as it is now is shown",
        async () => shownIn(page.locator(".approval")),
        (whole) => whole.includes("ATTACKER") && whole.includes("99999900") && whole.includes("The call has changed"),
      );
      watched.allowFailures(null);
      check(await approve(page).isDisabled(), "the new call can be approved without a look at it");
      check(!(await read(server, `sessions/${id}/messages`)).includes("paid"), "something was paid");
      await button(talk(page), "Decide about the call as it is now").click();
      await approve(page).click();
      await seeText(page, "paid:");
      check(JSON.stringify(await paidArguments(server, id)).includes("ATTACKER"), "another call ran");
    },
  },
  {
    name: "a call that changes while a person looks at it asks for another look",
    run: async ({ open, start }) => {
      const server = await start({ database: "changes.db", config });
      const { page } = await open("", server);
      const id = await startSession(page, "Use summarize_mail");
      await approve(page).waitFor();
      // The child agent asks again after the denial of another person, under the same call of the session.
      await denyCall(server, id);
      await until(
        "the new call is shown",
        async () => shownIn(page.locator(".approval")),
        (whole) => whole.includes("ATTACKER"),
      );
      await talk(page).getByText("The call has changed").waitFor();
      check((await text(page.locator(".changed-call"))).includes("the landlord"), "the earlier call is not shown");
      check(await approve(page).isDisabled(), "the new call can be approved without a look at it");
      check(
        await button(talk(page), "Deny with reason…").isDisabled(),
        "the new call can be denied without a look at it",
      );
      await button(talk(page), "Decide about the call as it is now").click();
      await talk(page).getByText("The call has changed").waitFor({ state: "detached" });
      await approve(page).click();
      await seeText(page, "The tool answered: transferred: 99999900 to ATTACKER");
    },
  },
];

/** JSON in which all characters outside of ASCII are escaped. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
