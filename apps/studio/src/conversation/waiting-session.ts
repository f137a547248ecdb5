// The session whose calls wait, for the forms that answer them. A conversation and the inbox show the same forms.

import { createContext, useContext } from "react";

export type WaitingSession = {
  readonly sessionId: string;
  /** The engine whose tools the calls name; `null`: not known. */
  readonly engine: string | null;
  /** The call whose question the composer of the page answers; `null`: the form has a field for the answer. */
  readonly composed: string | null;
  /** Reads the session again, after an answer or a refused decision. */
  readonly read: () => void;
};

const SessionContext = createContext<WaitingSession | null>(null);
export const WaitingSessionProvider = SessionContext.Provider;

/** The session of the form. Only inside of `WaitingSessionProvider`. */
export function useWaitingSession(): WaitingSession {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("useWaitingSession is used outside of WaitingSessionProvider");
  return session;
}
