// One line of the table of durable steps, in one process: turns of N steps (a model reply and a tool call each), of a
// scripted model without latency.

import type { Adapter } from "everturn";

import { readFileSync } from "node:fs";

import { engine, fake, tool } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

export type StepLine = "bare" | "path" | "handle" | "langGraph" | "dbos";
export type StepCost = { readonly wall: number; readonly cpu: number; readonly written: number };

/** Runs one turn of N steps. */
type Turn = (session: string, steps: number) => Promise<void>;

const instructions = "You write notes, one at a time.";
const [, , storage = "", line = "", place = ""] = process.argv;

function noteOf(step: number): string {
  return `Note ${step}: the harbour was quiet and the boats lay still until the evening.`;
}

async function everturnTurn(): Promise<Turn> {
  const note = tool({
    name: "note",
    description: "Writes a note.",
    schema: { type: "object", properties: { step: { type: "integer" } }, required: ["step"] },
    replay: "safe",
    handler: ({ step }) => noteOf(Number(step)),
  });
  let left = 0;
  const adapter: Adapter = {
    provider: "fake",
    stream: (request, call) => {
      left -= 1;
      const reply =
        left < 0
          ? ({ type: "text", text: "Done." } as const)
          : ({ type: "tool_call", name: "note", arguments: { step: left } } as const);
      return fake({ script: [reply], usage: { inputTokens: 10, outputTokens: 5 } }).stream(request, call);
    },
  };
  const options = { maxTurns: 1_000_000 };
  const agent = engine({ adapter, model: "fake:m", instructions, tools: [note], options });
  const host = await hostOf();
  const sessions = runtime({ host, engines: { default: agent }, durability: "durable" });
  return async (session, steps) => {
    left = steps;
    const { result } = await sessions.start("Write the notes.", { id: session });
    const { haltedReason } = await result;
    if (haltedReason !== "completed") throw new Error(`the turn ended with ${haltedReason}`);
  };
}

async function hostOf() {
  if (storage === "Postgres") {
    const { postgresStorage } = await import("everturn/postgres");
    return postgresStorage({ url: place });
  }
  if (line === "path") return sqliteStorage({ path: place });
  const { default: Database } = await import("libsql");
  return sqliteStorage(new Database(place));
}

/** The least that such a turn has to store: a row for the reply before the tool runs, and a row for its result. */
async function bareTurn(): Promise<Turn> {
  const insert = storage === "Postgres" ? await bareInPostgres() : await bareInSqlite();
  return async (session, steps) => {
    let position = 0;
    const add = (message: object) => insert(session, (position += 1), JSON.stringify(message));
    await add({ role: "user", content: "Write the notes.", instructions });
    for (let step = 0; step < steps; step += 1) {
      const call = { id: `call_${step}`, name: "note", arguments: { step } };
      await add({ role: "assistant", content: "", toolCalls: [call], usage: { inputTokens: 10, outputTokens: 5 } });
      await add({ role: "tool", id: call.id, content: noteOf(step) });
    }
    await add({ role: "assistant", content: "Done." });
  };
}

type Insert = (session: string, position: number, value: string) => Promise<unknown>;

async function bareInSqlite(): Promise<Insert> {
  const { default: Database } = await import("libsql");
  const database = new Database(place);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  database.exec(
    "CREATE TABLE IF NOT EXISTS bare (session TEXT, position INTEGER, value TEXT, PRIMARY KEY (session, position)) WITHOUT ROWID",
  );
  const insert = database.prepare("INSERT INTO bare VALUES (?, ?, ?)");
  return async (...values) => insert.run(...values);
}

async function bareInPostgres(): Promise<Insert> {
  const { Client } = await import("pg");
  const client = new Client({ connectionString: place });
  await client.connect();
  await client.query(
    "CREATE TABLE IF NOT EXISTS bare (session text, position integer, value text, PRIMARY KEY (session, position))",
  );
  const text = "INSERT INTO bare VALUES ($1, $2, $3)";
  return (...values) => client.query({ name: "insert", text, values });
}

/** The bytes that this process has passed to `write`; 0 where Linux does not report them. */
function writtenBytes(): number {
  try {
    return Number(/wchar: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** The turn of another library (`durable-libraries.mjs`). */
async function libraryTurn(name: string): Promise<Turn> {
  const file = new URL("durable-libraries.mjs", import.meta.url).href;
  type Task = { readonly storage: string; readonly place: string; readonly instructions: string };
  type Open = (task: Task & { readonly noteOf: typeof noteOf }) => Promise<Turn>;
  const libraries: { readonly [key: string]: Open } = await import(file);
  const open = libraries[name];
  if (open === undefined) throw new Error(`there is no library ${name}`);
  return open({ storage, place, instructions, noteOf });
}

async function turnOf(name: string): Promise<Turn> {
  switch (name) {
    case "bare":
      return bareTurn();
    case "path":
    case "handle":
      return everturnTurn();
    default:
      return libraryTurn(name);
  }
}

const turn = await turnOf(line);
let turns = 0;

async function measure(steps: number, times: number): Promise<StepCost> {
  const cpu = process.cpuUsage();
  const written = writtenBytes();
  const start = performance.now();
  for (let time = 0; time < times; time += 1) await turn(`${process.pid}-${(turns += 1)}`, steps);
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const units = steps * times;
  return { wall: wall / units, cpu: (user + system) / 1000 / units, written: (writtenBytes() - written) / units };
}

process.on("message", ({ steps, times }: { readonly steps: number; readonly times: number }) => {
  measure(steps, times).then(
    (cost) => process.send?.({ cost }),
    (error: unknown) => process.send?.({ error: error instanceof Error ? error.stack : String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.send?.({});
