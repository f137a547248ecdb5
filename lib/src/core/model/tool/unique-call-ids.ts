// Ids of tool calls for clients that find a call by its id in a whole conversation. Providers repeat ids in later
// replies: servers that send none get `call_0`, `call_1`, … in each reply. A call whose id is taken gets the suffix
// `#2`, `#3`, ….

/** The ids under which a client knows the calls of a conversation. */
export class UniqueCallIds {
  /** All ids that the client has. */
  readonly #used = new Set<string>();
  /** The client's id of the newest call, by the id of the call. */
  readonly #newest = new Map<string, string>();

  /** `clientIds`: the ids of the calls that the client has, oldest first. */
  constructor(clientIds: Iterable<string>) {
    for (const clientId of clientIds) {
      this.#used.add(clientId);
      this.#newest.set(clientId.replace(/#\d+$/, ""), clientId);
    }
  }

  /** Returns the id for a new call. */
  begin(callId: string): string {
    let clientId = callId;
    for (let number = 2; this.#used.has(clientId); number += 1) clientId = `${callId}#${number}`;
    this.#used.add(clientId);
    this.#newest.set(callId, clientId);
    return clientId;
  }

  /** The attempt that began the newest call with this id was thrown away, and the client has removed the call. */
  withdraw(callId: string): void {
    this.#used.delete(this.of(callId));
    this.#newest.delete(callId);
  }

  /** The client's id of the newest call with this id. */
  of(callId: string): string {
    return this.#newest.get(callId) ?? callId;
  }

  /** Whether a client's id can be that of a call with this id. */
  static isFor(clientId: string, callId: string): boolean {
    return (
      clientId === callId || (clientId.startsWith(`${callId}#`) && /^\d+$/.test(clientId.slice(callId.length + 1)))
    );
  }
}
