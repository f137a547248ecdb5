// A new version of the code is deployed while turns are open. A turn keeps the configuration with which it was
// accepted, whichever version of the code drives it.
//
//   stays         its invocation has begun on the old deployment, and ends there
//   handed over   the old process shuts down: the new deployment continues the turn
//   lost          the old process is killed and never comes back: the sweeper sends the turn to the new deployment

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { registerRestateDeployment } from "everturn/restate";

import { deploy } from "./deployed.ts";
import { folder, kill, ready, stop } from "./programs.ts";
import { report, until } from "./report.ts";
import { freePort } from "./restate-server.ts";

/** Lets the tool of a session return. */
function open(gate: string): void {
  writeFileSync(join(folder, gate), "");
}

/** Returns the violations. */
export async function upgradeTest(): Promise<readonly string[]> {
  const deployed = await deploy(1, 1);
  try {
    const { web, database, restate } = deployed;
    const [node] = restate.nodes;
    if (node === undefined) throw new Error("there is no node");
    const deployVersion = async (version: string) => {
      const port = await freePort();
      const service = await ready("versioned-service", database, folder, port, node.ingress, version);
      const uri = `http://127.0.0.1:${port}`;
      await registerRestateDeployment({ ingress: node.ingress, admin: node.admin, uri });
      return service;
    };
    // Instructions are pinned when a turn is accepted. The turns are accepted inside Restate, so by the deployment of
    // that moment.
    const start = async (id: string): Promise<string> => {
      const response = await fetch(`${node.ingress}/EverturnSession/${encodeURIComponent(`/${id}`)}/start`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ input: "go", options: { context: { gate: id } } }),
      });
      const { turnId }: { readonly turnId: string } = JSON.parse(await response.text());
      await until(`the turn of ${id} begins`, async () => {
        return (await web.get(id))?.openTurn?.step === 0 && (await isWaiting(id));
      });
      return turnId;
    };
    const isWaiting = async (id: string): Promise<boolean> => {
      const [rows = []] = await deployed.storage.read([{ table: "events", prefix: ["", id] }]);
      return rows.some(({ value }) => value.includes("message_completed"));
    };
    const end = async (id: string, turnId: string): Promise<string> => {
      const began = Date.now();
      const { text } = await web.attach(id, turnId).result;
      times.set(id, Date.now() - began);
      return text;
    };
    const times = new Map<string, number>();
    const oldest = await deployVersion("1");
    const lost = await start("lost");
    const old = await deployVersion("2");
    const stays = await start("stays");
    const handedOver = await start("handed-over");
    const current = await deployVersion("3");
    const fresh = await start("fresh");
    for (const gate of ["fresh", "stays"]) open(gate);
    const texts = new Map<string, string>([
      ["fresh", await end("fresh", fresh)],
      ["stays", await end("stays", stays)],
    ]);
    await kill(oldest);
    await stop(old);
    for (const gate of ["lost", "handed-over"]) open(gate);
    texts.set("handed-over", await end("handed-over", handedOver));
    texts.set("lost", await end("lost", lost));
    await stop(current);
    const expected = new Map([
      ["fresh", "code 3, instructions 3"],
      ["stays", "code 2, instructions 2"],
      ["handed-over", "code 3, instructions 2"],
      ["lost", "code 3, instructions 1"],
    ]);
    report(
      "upgrade with open turns",
      ...[...texts].map(([id, text]) => `  ${id.padEnd(27)} ${text} (after ${times.get(id) ?? 0} ms)`),
    );
    return [...expected].flatMap(([id, text]) =>
      texts.get(id) === text ? [] : [`${id}: expected "${text}", got "${texts.get(id) ?? ""}"`],
    );
  } finally {
    await deployed.close();
  }
}
