// Names of pinned configurations that belong to one session. Their rows of `contents` are not shared with other
// sessions, so they are deleted with theirs.

const prefix = "session-";

/**
 * The key in `contents` of a configuration that belongs to a session. The digest is of the session and of the
 * configuration.
 */
export function ownPinnedName(digest: string): string {
  return `${prefix}${digest}`;
}

/** Returns whether a configuration belongs to one session. */
export function isOwnPinned(name: string): boolean {
  return name.startsWith(prefix);
}
