// A session with one tool call that waits for approval.

import { counting, worker, World } from "./world.ts";

/** Starts a session `s1` whose only pending call, `c0`, waits for approval. */
export async function awaitingApproval(options: object = {}, world = new World()) {
  const pay = counting("pay", { needsApproval: true });
  const model = worker("pay");
  const of = world.process(world.engine(model, { tools: [pay.tool] }));
  await (
    await of.start("hi", { id: "s1", ...options })
  ).result;
  return { world, of, pay, model };
}
