// What the loopback provider replies to each program of the guides: by the name of the guide, one list for each program in it.

import type { Reply } from "./provider.ts";

export const replies: { readonly [guide: string]: readonly (readonly Reply[])[] } = {
  README: [
    [{ calls: [["weather", { city: "Rome" }]] }, { text: "No. The sky over Rome is clear, at 24 degrees." }],
    [{ calls: [["refund", { euros: 189 }]] }, { text: "I have refunded 189 EUR to your card." }],
    [{ text: "The Tiber." }],
  ],
  "getting-started": [
    [
      { text: "Franz Kafka wrote The Trial." },
      { text: "It was published in 1925, a year after his death.", usage: { input: 48, output: 10 } },
    ],
  ],
  tools: [
    [
      {
        calls: [
          ["check_stock", { product: "grinder" }],
          ["check_stock", { product: "kettle" }],
        ],
      },
      { text: "We have three grinders; kettles are sold out." },
    ],
  ],
  streaming: [
    [
      { calls: [["clock", { city: "Rome" }]], usage: { input: 36, output: 9 } },
      { text: "It is five past two in Rome.", usage: { input: 44, output: 7 } },
    ],
  ],
  "structured-output": [
    [
      {
        text: '{"title":"Blank checkout page after the update","severity":"high","components":["checkout","cart"]}',
      },
    ],
  ],
  "human-approval": [
    [{ calls: [["refund", { order: "1042", euros: 189 }]] }, { text: "I have refunded 189 EUR to your card." }],
  ],
  sessions: [[{ text: "Buongiorno." }, { text: "Buonasera." }]],
  durable: [
    [
      { calls: [["track_parcel", { order: "1042" }]] },
      { text: "Your parcel is in Bologna." },
      { text: "It should arrive on Tuesday." },
    ],
  ],
  deploying: [[{ text: "The Tiber." }]],
  http: [[{ text: "No, it is sunny." }]],
  client: [[{ text: "Rome has more than nine hundred churches." }]],
};
