// The memory of event readers: how much they may read at a time, and how much all of them may hold.
//
// Theory of operation
//   A reader reads pages of at most `pageLength` characters, or one event that is longer. A page that is not consumed
//   at once, because the consumer is slow or has stopped reading, stays in memory. These pages are counted by tenant
//   and in total (core/fair/fair-share.ts). If a new page exceeds a limit, the oldest pages are evicted, of the same
//   tenant or of the tenant that holds the most: their readers read them again from the storage when they continue. So
//   a reader that does not read costs no memory while others need it, no reader waits for another, and nothing is lost.
//   Large pages that are read from the storage at the same time are bounded too, for one tenant and for the process.
//   Otherwise, hundreds of readers of one tenant would occupy the storage and the event loop, and requests of other
//   tenants would wait for all of them. The HTTP handler has permits of its own, which a page of messages holds from
//   its read until its response counts in the budget of unread responses (serve/http/byte-budget.ts): a page in memory
//   is several times as large as its text.

import type { Capacity } from "../../core/fair/fair-share.ts";

/** The length of a page, in characters of the stored rows. */
export const pageLength = 65_536;

/** The pages of all readers of one tenant, and of all readers of the process, in characters. */
export const pagesInMemory: Capacity = { each: 8 * 1_048_576, total: 32 * 1_048_576 };

/** How many pages of one tenant, and of all tenants, are read from the storage at the same time. */
export const readsAtOnce: Capacity = { each: 2, total: 8 };
