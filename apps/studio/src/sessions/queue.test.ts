import { expect, test } from "vitest";

import { queueOf, queueText } from "./queue.ts";

const limitWait = { limit: "engine", since: 20 } as const;
const running = { turnStatus: "running", limitWait: null, changedAt: 1 } as const;
const queued = { turnStatus: "queued", limitWait: null, changedAt: 30 } as const;

test("turns that no process drives are counted, by what they wait for, with the oldest wait", () => {
  const queue = queueOf([running, queued, { ...queued, limitWait, changedAt: 50 }]);
  expect(queue).toEqual({ turns: 2, limited: 1, since: 20 });
  expect(queueText(queue)).toBe("2 turns wait: 1 for a worker, 1 for a limit.");
  expect(queueText(queueOf([queued]))).toBe("1 turn waits: 1 for a worker.");
});

test("an empty queue says so", () => {
  const queue = queueOf([running]);
  expect(queue).toEqual({ turns: 0, limited: 0, since: null });
  expect(queueText(queue)).toBe("No turn waits for a worker or a limit.");
});
