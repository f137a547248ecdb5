// The stops of a message between an HTTP request and the batch that accepts it: the functions of lib/src that have
// begun and not ended when the storage gets the batch, in the order in which they were called. Functions that have
// returned by then, such as the one that reads the body, are no stops.
//
// They are the frames of the stack trace of the write. It continues across `await`.

/** A function on the way, for example `accept` in `durable/accept/accept.ts`. */
export type Stop = { readonly file: string; readonly function: string };

/** Sends a message with an idempotency key to a session that has had a turn. */
export async function stopsOfRequest(): Promise<readonly Stop[]> {
  const { engine, fake } = await import("everturn");
  const { memoryStorage } = await import("everturn/runtime");
  const { createHandler } = await import("everturn/http");
  const { runtime } = await import("everturn/runtime");

  let stops: readonly Stop[] | null = null;
  const storage = memoryStorage();
  const write: typeof storage.write = (batch) => {
    if (stops === null && batch.puts.some(({ table }) => table === "turns")) stops = framesOfLibrary();
    return storage.write(batch);
  };
  const scripts = ["Four.", "Four, once more."].map((text) => [{ type: "text", text } as const]);
  const engines = { default: engine({ adapter: fake({ scripts }), model: "fake:m" }) };
  const sessions = runtime({ host: { ...storage, write }, engines });
  await (
    await sessions.start("What is two plus two?", { id: "walk" })
  ).result;
  const handler = createHandler({ sessions, auth: "none" });
  stops = null;
  const response = await handler(
    new Request("http://localhost/sessions/walk/reply", {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": "key" },
      body: JSON.stringify({ text: "And once more?" }),
    }),
  );
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  await response.text();
  await sessions.close();
  return stops ?? [];
}

function framesOfLibrary(): readonly Stop[] {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 200;
  const { stack = "" } = new Error("the accepting batch is written");
  Error.stackTraceLimit = limit;
  return stack
    .split("\n")
    .flatMap((line) => {
      const [, name = "", file] = /^\s+at (?:async )?(?:(.+) \()?.*\/lib\/src\/(.+\.ts):\d+:\d+\)?$/.exec(line) ?? [];
      return file === undefined ? [] : [{ file, function: name.replace("Object.", "") || "<anonymous>" }];
    })
    .toReversed();
}
