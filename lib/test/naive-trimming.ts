// What many programs do against a full context window: they cut off the oldest messages of each request. The context
// policy is measured beside it.

import type { Middleware } from "everturn/middleware";

/**
 * Cuts off the oldest messages of each request, so that it fits in four fifths of a window: at a message of the user,
 * without the instructions.
 */
export function trimming(window: number): Middleware {
  return {
    name: "trim",
    model: ({ request }, next) => {
      const [first, ...rest] = request.messages;
      const sizes = rest.map((message) => Math.ceil(JSON.stringify(message).length / 4));
      let total = sizes.reduce((sum, size) => sum + size, 0);
      let cut = 0;
      while (cut < rest.length - 1 && (total > window * 0.8 || rest[cut]?.role !== "user")) total -= sizes[cut++] ?? 0;
      const messages = first === undefined ? [] : [first, ...rest.slice(cut)];
      return next({ ...request, messages });
    },
  };
}
