// Runs in an empty project with the installed package, under every runtime: imports all entry points, runs a turn with
// a tool, and a durable turn in memory. Arguments: the entry points, then `sqlite` if the runtime has a driver.

const [specifiers, storage] = process.argv.slice(2);
for (const specifier of specifiers.split(",")) {
  const names = Object.keys(await import(specifier));
  if (names.length === 0) throw new Error(`${specifier} exports nothing`);
}

const { chat, engine, fake, stream, tool, unwrap } = await import("everturn");
const { memoryStorage } = await import("everturn/runtime");
const { runtime } = await import("everturn/runtime");
const { createHandler } = await import("everturn/http");

const echo = tool({ name: "echo", description: "Echo.", schema: { type: "object" }, handler: (value) => value });
const scripts = [[{ type: "tool_call", name: "echo", arguments: { x: 1 } }], [{ type: "text", text: "done" }]];
const createEngine = () => engine({ adapter: fake({ scripts }), model: "fake:m", tools: [echo] });

const result = await chat(createEngine(), "echo please");
expect(unwrap(result), "done");
let text = "";
for await (const event of stream(createEngine(), "echo please")) if (event.type === "text_delta") text += event.delta;
expect(text, "done");

await durableTurn(memoryStorage());
if (storage === "sqlite") {
  const { sqliteStorage } = await import("everturn/sqlite");
  await durableTurn(sqliteStorage({ path: "smoke.db" }));
}
console.log("ok");
process.exit(0);

async function durableTurn(host) {
  const sessions = runtime({ host, engines: { default: createEngine() } });
  const turn = await sessions.start("echo please");
  expect(unwrap(await turn.result), "done");
  const handler = createHandler({ sessions, auth: "none" });
  expect((await handler(new Request("http://localhost/health"))).status, 200);
  await sessions.close();
}

function expect(value, expected) {
  if (value !== expected) throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(value)}`);
}
