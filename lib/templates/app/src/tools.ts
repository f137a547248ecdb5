// The tools of the agent. Replace this one with yours.

import { tool } from "everturn";
import { z } from "zod";

export const bookTable = tool({
  name: "book_table",
  description: "Books a table in the restaurant.",
  schema: z.object({
    name: z.string().meta({ description: "The name of the guest.", examples: ["Ada"] }),
    guests: z
      .int()
      .min(1)
      .max(12)
      .meta({ examples: [2] }),
    time: z.string().meta({ description: "The time, such as 20:00.", examples: ["20:00"] }),
  }),
  // A person decides before the tool runs: in the page, in the terminal, or over HTTP. The session may wait for days.
  needsApproval: true,
  // Not run again if the process dies while it runs. With "safe" it would be.
  replay: "never",
  handler: (table, { idempotencyKey }) => book({ ...table, idempotencyKey }),
});

type Booking = { name: string; guests: number; time: string; idempotencyKey: string };

/** Replace it with a request to your booking system. Send the key with it: a repeated request then books once. */
async function book({ name, guests, time }: Booking): Promise<string> {
  return `booked a table for ${guests} at ${time}, for ${name}`;
}
