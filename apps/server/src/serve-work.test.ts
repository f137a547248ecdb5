// A server claims turns that no other process drives.

import { engine, fake } from "everturn";
import { memoryStorage, runtime } from "everturn/runtime";
import { expect, test } from "vitest";

import { startServer } from "./serve.ts";

test("drives queued turns of other processes, unless work is false", async () => {
  const host = memoryStorage();
  const engines = {
    default: engine({ adapter: fake({ script: [{ type: "text", text: "Here." }] }), model: "fake:m" }),
  };
  const acceptingOnly = runtime({ host, engines, drive: false });
  const turn = await acceptingOnly.start("Anybody?", { id: "s1" });

  const idle = await startServer({ sessions: runtime({ host, engines }), auth: "none", work: false });
  await idle.close();
  expect((await acceptingOnly.get("s1"))?.openTurn?.status).toBe("queued");

  const server = await startServer({ sessions: runtime({ host, engines }), auth: "none" });
  expect((await turn.result).text).toBe("Here.");
  await server.close();
});
