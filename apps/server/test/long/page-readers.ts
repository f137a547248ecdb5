// Clients of one tenant that request pages and read them as fast as they can, in a process of their own: reading must
// not delay what the parent process measures.

import { connect } from "node:net";

/** The argument of the process, as JSON: one connection for each request. A connection that ends is opened again. */
export type PageReadersPlan = { readonly port: number; readonly requests: readonly string[] };

const plan: PageReadersPlan = JSON.parse(process.argv[2] ?? "");
const counts = { answered: 0, rejected: 0, bytes: 0 };

function read(request: string): void {
  const socket = connect(plan.port, "127.0.0.1");
  let head = "";
  socket.on("error", () => undefined);
  socket.once("connect", () => socket.write(request));
  socket.on("data", (data: Buffer) => {
    if (head === "") head = data.toString("latin1", 0, 12);
    counts.bytes += data.byteLength;
  });
  socket.once("close", () => {
    if (head === "HTTP/1.1 200") counts.answered += 1;
    else counts.rejected += 1;
    // A client that was rejected tries again a little later, as `Retry-After` asks for.
    setTimeout(() => read(request), head === "HTTP/1.1 200" ? 0 : 1000);
  });
}

process.on("message", ({ id }: { readonly id: number }) => process.send?.({ id, answer: counts }));
process.on("disconnect", () => process.exit());
for (const request of plan.requests) read(request);
