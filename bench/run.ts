// `npm run bench`: runs every benchmark in one process, one after the other, on the built package and not on its
// sources.

import { benchDurable } from "./durable.ts";
import { benchKernel } from "./kernel.ts";
import { benchMiddleware } from "./middleware.ts";
import { benchModel } from "./model.ts";
import { benchSqlite } from "./sqlite.ts";
import { benchTypes } from "./types.ts";
import { benchWire } from "./wire.ts";

console.log(`Node ${process.version}, ${process.arch}`);
benchModel();
benchKernel();
benchWire();
benchTypes();
await benchMiddleware();
await benchDurable();
await benchSqlite();
