// The baseline of the load test: a bare `node:http` server that writes the same frames at the same pace, without
// storage, validation or replay.

import type { Pace } from "./paced-model.ts";
import type { ServerResponse } from "node:http";

import { once } from "node:events";
import { createServer } from "node:http";

import { serveControlMessages } from "./measure.ts";
import { word, wordDue } from "./paced-model.ts";

async function writeWords(response: ServerResponse, pace: Pace): Promise<void> {
  let offset = 0;
  for (let index = 0; index < pace.words; index += 1) {
    await wordDue(index, pace);
    const delta = word(index, pace);
    const event = {
      turnId: "turn",
      sequence: null,
      delta: { attempt: { epoch: 1, n: 1 }, part: "text/0", offset },
      event: { type: "text_delta", id: null, delta },
    };
    offset += delta.length;
    const hasRoom = response.write(`id: 2;1.1;text/0=${offset};turn/0/model\ndata: ${JSON.stringify(event)}\n\n`);
    if (!hasRoom) await once(response, "drain");
  }
  response.end(`event: end\ndata: {}\n\n`);
}

const server = createServer((request, response) => {
  const pace: Pace = JSON.parse(decodeURIComponent((request.url ?? "").slice(2)));
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  writeWords(response, pace).catch(() => response.destroy());
});
server.listen(0, "127.0.0.1");
await once(server, "listening");

serveControlMessages();
process.on("SIGTERM", () => process.exit());
process.on("disconnect", () => process.exit());
const address = server.address();
process.send?.({ port: typeof address === "object" ? address?.port : null });
