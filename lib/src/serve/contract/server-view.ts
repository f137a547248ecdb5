// The answer of `GET /server`, which pages such as the studio read first. Server and client share it; core/ and
// durable/ do not use it.

/** The server and what the caller may do there. */
export type ServerView = {
  /** The version of the library. */
  readonly version: string;
  /** The kind of storage, for example `sqlite`; `null`: not named. */
  readonly storage: string | null;
  readonly durability: "durable" | "volatile";
  /** Whether `GET /search` finds text in messages. */
  readonly search: boolean;
  /** Whether the caller sees the workers, and the sums of all tenants. */
  readonly operator: boolean;
  /**
   * Whether the caller lists tenants (`GET /tenants`) and acts in them (`Everturn-Tenant`). False if the request names
   * one.
   */
  readonly tenants: boolean;
  /** The tenant of the caller; empty: the default tenant. */
  readonly tenant: string;
  /** Turn options that callers may set. */
  readonly allow: readonly string[];
  /** Whether turn records may be exported. */
  readonly records: boolean;
  /** Prepared conversations of the offline model that `POST /scenarios/{name}` starts. */
  readonly scenarios: readonly ScenarioView[];
};

/** A prepared conversation that shows one behaviour. */
export type ScenarioView = { readonly name: string; readonly title: string; readonly description: string };
