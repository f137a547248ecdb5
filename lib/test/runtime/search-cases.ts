// What every storage that offers `search` does. A host's test passes a function that opens its storage, and one that
// opens the same rows again.

import type { HostStorage, Runtime } from "everturn/runtime";

import { engine, fake, tool } from "everturn";
import { inspection } from "everturn/http";
import { runtime } from "everturn/runtime";
import { expect } from "vitest";

/** Opens a storage. Each call opens the same rows, with the index or without it. */
export type SearchHost = { readonly open: (options: { readonly search: boolean }) => Promise<HostStorage> };

export type SearchCase = { readonly name: string; readonly run: (host: SearchHost) => Promise<void> };

const replies = () => fake({ scripts: Array.from({ length: 400 }, () => [{ type: "text", text: "Gern." } as const]) });

function sessionsOn(host: HostStorage): Runtime {
  return runtime({ host, engines: { default: engine({ adapter: replies(), model: "fake:m" }) }, live: false });
}

async function opened(host: SearchHost, search = true): Promise<Runtime> {
  return sessionsOn(await host.open({ search }));
}

async function say(sessions: Runtime, id: string, text: string, title?: string): Promise<void> {
  const existing = await sessions.get(id, { messages: 0 });
  const started = { id, ...(title === undefined ? {} : { metadata: { title } }) };
  const turn = await (existing === null ? sessions.start(text, started) : sessions.reply(id, text));
  await turn.result;
}

const placesOf = async (sessions: Runtime, query: string) =>
  (await inspection(sessions.source).search(query, { limit: 100 })).map(
    ({ sessionId, position }) => `${sessionId} ${position}`,
  );

export const searchCases: readonly SearchCase[] = [
  {
    name: "finds messages that contain all words, of the newest session first, with the text around the match",
    run: async (host) => {
      const sessions = await opened(host);
      expect(inspection(sessions.source).canSearch).toBe(true);
      await say(sessions, "s1", `${"filler ".repeat(50)}The invoice of Müller\nis overdue. ${"rest ".repeat(100)}`);
      await say(sessions, "s2", "An invoice for Anna.");
      await say(sessions, "s1", "Which invoice?");
      expect(await placesOf(sessions, "invoice")).toEqual(["s1 2", "s1 0", "s2 0"]);
      const [hit, ...others] = await inspection(sessions.source).search("INVOICE muller over");
      expect(others).toEqual([]);
      expect(hit).toMatchObject({ sessionId: "s1", position: 0, role: "user" });
      const { excerpt = "", matches = [] } = hit ?? {};
      expect(excerpt.length).toBeLessThanOrEqual(240);
      expect(matches.map(([from, until]) => excerpt.slice(from, until))).toEqual(["invoice", "Müller", "overdue"]);
      expect(await placesOf(sessions, "gern")).toEqual(["s1 3", "s1 1", "s2 1"]);
      expect(await inspection(sessions.source).search("gern", { limit: 1 })).toHaveLength(1);
      expect(await placesOf(sessions, "invoice paid")).toEqual([]);
    },
  },
  {
    name: "finds messages by the names of the tools that they call, also beside a long text",
    run: async (host) => {
      const find = tool({
        name: "find_order",
        description: "Finds an order.",
        schema: { type: "object" },
        handler: () => "x",
      });
      const scripts = [
        [
          { type: "text", text: `I look. ${"straw ".repeat(30_000)}` },
          { type: "tool_call", name: "find_order", arguments: {} },
        ],
        [{ type: "text", text: "Done." }],
      ] as const;
      const of = engine({ adapter: fake({ scripts }), model: "fake:m", tools: [find] });
      const sessions = runtime({ host: await host.open({ search: true }), engines: { default: of }, live: false });
      await (
        await sessions.start("Where is it?", { id: "s1" })
      ).result;
      expect(await placesOf(sessions, "find_order")).toEqual(["s1 1"]);
      expect(await placesOf(sessions, "find_ord")).toEqual(["s1 1"]);
      const [{ excerpt = "", matches = [] } = {}] = await inspection(sessions.source).search("find_order");
      expect(matches.map(([from, until]) => excerpt.slice(from, until))).toEqual(["find", "order"]);
      expect(await placesOf(sessions, "find_invoice")).toEqual([]);
    },
  },
  {
    name: "finds only messages of the tenant",
    run: async (host) => {
      const sessions = await opened(host);
      for (const tenant of ["a", "ab", "", 'a" OR "b', "A"])
        await say(sessions.tenant(tenant), "s1", "the secret word");
      for (const tenant of ["a", "ab", "", 'a" OR "b', "A"]) {
        expect(await placesOf(sessions.tenant(tenant), "secret")).toEqual(["s1 0"]);
      }
      expect(await placesOf(sessions.tenant("b"), "secret")).toEqual([]);
    },
  },
  {
    name: "a deleted session is not found, and a new one under its id is",
    run: async (host) => {
      const sessions = await opened(host);
      await say(sessions, "s1", "apples");
      await sessions.delete("s1");
      expect(await placesOf(sessions, "apples")).toEqual([]);
      await say(sessions, "s1", "pears");
      expect(await placesOf(sessions, "pears")).toEqual(["s1 0"]);
      expect(await placesOf(sessions, "apples")).toEqual([]);
    },
  },
  {
    name: "indexes the beginning of large texts, and no text makes a commit fail",
    run: async (host) => {
      const sessions = await opened(host);
      await say(sessions, "s1", `needle ${"straw ".repeat(30_000)}haystack`);
      await say(sessions, "s2", `needle ${"x".repeat(3_000_000)}`);
      // More distinct words than a tsvector of 1 MB can hold.
      await say(sessions, "s3", `needle ${Array.from({ length: 200_000 }, (_, index) => `word${index}`).join(" ")}`);
      await say(sessions, "s4", 'needle \0 \ud800 "quoted" \\backslash\\ {"text":"inner"} \u0001');
      expect((await placesOf(sessions, "needle")).toSorted()).toEqual(["s1 0", "s2 0", "s3 0", "s4 0"]);
      expect(await placesOf(sessions, "quoted backslash")).toEqual(["s4 0"]);
      expect(await placesOf(sessions, "haystack")).toEqual([]);
    },
  },
  {
    name: "no query is a syntax error",
    run: async (host) => {
      const sessions = await opened(host);
      await say(sessions, "s1", "AND near the NOT gate");
      const queries = [
        "",
        "   ",
        '"',
        "'",
        "''",
        "AND",
        "and NOT",
        "NEAR(",
        "a*",
        "*",
        "-gate",
        "text:gate",
        "^gate",
        "gate)",
        "(((",
        "gate & | ! <-> :*",
        "\\",
        "\0gate",
        "\ud800",
        "%_",
        "$1",
        "; DROP TABLE everturn_entries",
        "x ".repeat(5000),
        "y".repeat(10_240),
        "🙂",
        "العربية",
        "e\u0301\u0301",
      ];
      for (const query of queries) expect(Array.isArray(await inspection(sessions.source).search(query))).toBe(true);
      expect(await placesOf(sessions, "AND")).toEqual(["s1 0"]);
      expect(await placesOf(sessions, '"gate" NOT (near)')).toEqual(["s1 0"]);
    },
  },
  {
    name: "messages that are older than the index are indexed, also while others are written",
    run: async (host) => {
      const before = await opened(host, false);
      expect(inspection(before.source).canSearch).toBe(false);
      await expect(inspection(before.source).search("x")).rejects.toMatchObject({ reason: "not_found" });
      const writeSession = async (session: number) => {
        for (let index = session; index < 70; index += 7) await say(before, `s${session}`, `number${index} olive`);
      };
      await Promise.all(Array.from({ length: 7 }, (_, session) => writeSession(session)));
      await before.delete("s6");
      const after = await opened(host);
      await say(after, "s0", "a new olive");
      expect(await placesOf(after, "olive")).toHaveLength(61);
      expect(await placesOf(after, "number33")).toEqual(["s5 8"]);
    },
  },
];
