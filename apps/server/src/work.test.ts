// A server drives what nobody else does.

import { engine, fake } from "everturn";
import { memoryStorage } from "everturn/host/memory";
import { runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { startServer } from "./serve.ts";

test("turns that were only accepted, or left by another process, are picked up by a server and by none that is told not to", async () => {
  const host = memoryStorage();
  const engines = {
    default: engine({ adapter: fake({ script: [{ type: "text", text: "Here." }] }), model: "fake:m" }),
  };
  const others = runtime({ host, engines, drive: false });
  const turn = await others.start("Anybody?", { id: "s1" });

  const idle = await startServer({ sessions: runtime({ host, engines }), auth: "none", work: false });
  await idle.close();
  expect((await others.get("s1"))?.openTurn?.status).toBe("queued");

  const server = await startServer({ sessions: runtime({ host, engines }), auth: "none" });
  expect((await turn.result).text).toBe("Here.");
  await server.close();
});
