// The Restate server is killed while a process drives a turn, and the process lives. The attempt is then over for the
// process (`attemptCompletedSignal`): it hands the turn over while the server is down, although it could renew its
// lease for ever. When the server runs again, the next attempt continues the turn.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { registerRestateDeployment } from "everturn/restate";

import { deploy } from "./deployed.ts";
import { folder, ready, stop } from "./programs.ts";
import { report, until } from "./report.ts";
import { freePort } from "./restate-server.ts";

const id = "handover";

/** Returns the violations. */
export async function handoverTest(): Promise<readonly string[]> {
  const deployed = await deploy(1, 1);
  try {
    const { web, storage, database, restate } = deployed;
    const [node] = restate.nodes;
    if (node === undefined) throw new Error("there is no node");
    const port = await freePort();
    const service = await ready("versioned-service", database, folder, port, node.ingress, "1");
    await registerRestateDeployment({ ingress: node.ingress, admin: node.admin, uri: `http://127.0.0.1:${port}` });
    const calls = () => (existsSync(callsFile) ? readFileSync(callsFile, "utf8").length : 0);
    const isReleased = async (): Promise<boolean> => {
      const [rows = []] = await storage.read([{ table: "leases", prefix: ["", id] }]);
      return rows.some(({ value }) => value.includes('"released":true'));
    };
    // Accepted inside Restate, by the deployment that has the tool.
    const response = await fetch(`${node.ingress}/EverturnSession/${encodeURIComponent(`/${id}`)}/start`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input: "go", options: { context: { gate: id } } }),
    });
    const { turnId }: { readonly turnId: string } = JSON.parse(await response.text());
    await until("the tool is called", () => calls() === 1);
    const wasHeld = !(await isReleased());
    const killedAt = Date.now();
    await node.kill();
    await until("the turn is handed over", isReleased);
    const releasedMs = Date.now() - killedAt;
    await node.start();
    const startedAt = Date.now();
    await until("the tool is called again", () => calls() === 2);
    const continuedMs = Date.now() - startedAt;
    writeFileSync(join(folder, id), "");
    const { status } = await web.attach(id, turnId).result;
    await stop(service);
    report(
      `server killed, process lives  handed over after ${releasedMs} ms while the server is down; continued ${continuedMs} ms after it runs again`,
    );
    const violations = [
      ...(wasHeld ? [] : ["the lease was not held before the kill"]),
      ...(status === "ended" ? [] : [`the turn has the status ${status}`]),
      ...(calls() === 2 ? [] : [`the tool was called ${calls()} times`]),
    ];
    return violations;
  } finally {
    await deployed.close();
  }
}

/** One character for each call of the tool. */
const callsFile = join(folder, `${id}.calls`);
