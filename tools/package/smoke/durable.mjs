// A turn that survives `kill -9`, over SQLite. Runs in an empty project with the installed package, under every runtime
// that has a driver.
//
//   durable.mjs start    starts a turn; the process kills itself in the second model call, after the tool's result was
//                        recorded
//   durable.mjs finish   another process continues the turn, and checks that the tool ran once

import { appendFileSync, readFileSync } from "node:fs";

import { engine, fake, tool, unwrap } from "everturn";
import { runtime } from "everturn/runtime";
import { sqliteStorage } from "everturn/sqlite";

const [part] = process.argv.slice(2);
const log = "durable.log";

const pay = tool({
  name: "pay",
  description: "Pays.",
  schema: { type: "object" },
  handler: () => {
    appendFileSync(log, "paid\n");
    return "paid";
  },
});
const scripts = [[{ type: "tool_call", name: "pay", arguments: {} }], [{ type: "text", text: "done" }]];
const scripted = fake({ scripts: part === "start" ? scripts : scripts.slice(1) });
const adapter = {
  ...scripted,
  stream: (request, call) => {
    const isSecond = request.messages.some(({ role }) => role === "tool");
    if (part === "start" && isSecond) process.kill(process.pid, "SIGKILL");
    return scripted.stream(request, call);
  },
};

const host = sqliteStorage({ path: "durable.db" });
const sessions = runtime({
  host,
  engines: { default: engine({ adapter, model: "fake:m", tools: [pay] }) },
  lease: { ttlMs: 2000, renewMs: 500 },
});
if (part === "start") {
  const turn = await sessions.start("pay please", { id: "s1" });
  await turn.result;
  throw new Error("the process was not killed");
}
const stop = new AbortController();
const working = sessions.work({ signal: stop.signal });
const turn = await sessions.attach("s1");
const text = unwrap(await turn.result);
stop.abort();
await working;
await sessions.close();
await host.close();
const paid = readFileSync(log, "utf8");
if (text !== "done" || paid !== "paid\n")
  throw new Error(`the turn ended with ${text}; the tool logged ${JSON.stringify(paid)}`);
console.log("ok");
process.exit(0);
