// Which word, icon and colour does each state have, and how are times and sizes said?

const SETTLED = {
  ok: ["ok", "ok", "Done"],
  error: ["bad", "fail", "Failed"],
  raised: ["bad", "fail", "Failed"],
  timeout: ["bad", "fail", "Failed"],
  abandoned: ["bad", "fail", "Failed"],
  suppressed: ["quiet", "repeat", "Repeat, not sent"],
  refused: ["quiet", "ban", "Not allowed"],
  denied: ["quiet", "x", "Denied"],
  stopped: ["quiet", "stop", "Stopped"],
  ambiguous: ["odd", "question", "Outcome unknown"],
};

/** Say where a call stands: `{tone, icon, word, spins, since}`. `decider` is who may answer. */
export function callState(call, { me, decider } = {}) {
  if (call.state === "settled") {
    if (call.reason === "approval_expired") return { tone: "quiet", icon: "clock", word: "Ran out of time" };
    if (call.reason === "superseded") return { tone: "quiet", icon: "pen", word: "Arguments changed" };
    if (call.reason === "invalid_arguments") return { tone: "bad", icon: "fail", word: "Not valid" };
    const [tone, icon, word] = SETTLED[call.outcome] || ["odd", "question", "Outcome unknown"];
    const took = call.milliseconds > 0 && (tone === "ok" || tone === "bad") ? ` · ${duration(call.milliseconds)}` : "";
    return { tone, icon, word: word + took };
  }
  if (call.state === "waiting" && decider) {
    const whom = me && decider.id === me.id ? "you" : decider.name;
    return { tone: "wait", icon: "hand", word: `Waiting for ${whom}` };
  }
  if (call.state === "dispatched" && call.paused) {
    return { tone: "wait", icon: "clock", word: "Waiting for another system" };
  }
  if (call.state === "dispatched" || call.state === "waiting") {
    return { tone: "info", icon: "load", word: "Running", spins: true, since: call.since };
  }
  return { tone: "quiet", icon: "dash", word: "Checking", late: true };
}

const EFFECTS = {
  read: { tone: "", icon: "eye", word: "Reads" },
  write: { tone: "info", icon: "pen", word: "Writes" },
  sensitive: { tone: "bad", icon: "shieldx", word: "Sensitive" },
};

/** Say what a tool does to the world; what is not declared counts as sensitive. */
export function effectWords(effect) {
  return EFFECTS[effect] || EFFECTS.sensitive;
}

const DECISIONS = {
  approved: ["ok", "ok", "Approved"],
  denied: ["quiet", "x", "Denied"],
  replaced: ["quiet", "pen", "Arguments changed"],
  expired: ["quiet", "clock", "Ran out of time, nothing happened"],
  withdrawn: ["quiet", "stop", "Withdrawn, nothing happened"],
};

/** Say how a request was decided. */
export function decisionWords(decision, by, me) {
  const [tone, icon, word] = DECISIONS[decision] || ["odd", "question", "Decided"];
  const personal = ["approved", "denied", "replaced"].includes(decision);
  const whom = personal && by ? ` by ${me && by.username === me.username ? "you" : by.name}` : "";
  return { tone, icon, word: word + whom };
}

const KINDS = { text: "Text", markdown: "Markdown", html: "HTML", svg: "Drawing", code: "Code", file: "File" };

/** Name a kind of artifact. */
export function kindWord(kind, language) {
  return kind === "code" && language ? language : KINDS[kind] || "Text";
}

/** Say how long something took. */
export function duration(milliseconds) {
  if (milliseconds < 950) return `${Math.max(0.1, Math.round(milliseconds / 100) / 10)} s`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

/** Say how much time is left before a moment, and whether that is little. */
export function timeLeft(until, now = Date.now()) {
  const seconds = Math.floor((Date.parse(until) - now) / 1000);
  if (seconds <= 0) return { text: "time is up", soon: true, over: true };
  if (seconds < 60) return { text: `${seconds} s left`, soon: true };
  if (seconds < 3600) return { text: `${Math.floor(seconds / 60)} min left`, soon: seconds < 600 };
  if (seconds < 86400) return { text: `${Math.floor(seconds / 3600)} h left`, soon: false };
  return { text: `${Math.floor(seconds / 86400)} days left`, soon: false };
}

/** Show a moment: the clock today, the date before. */
export function clock(moment, now = new Date()) {
  const at = new Date(moment);
  const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === now.toDateString()) return time;
  const year = at.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year })}, ${time}`;
}

/** Show a size in bytes. */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1000000) return `${(bytes / 1000).toFixed(bytes < 10000 ? 1 : 0)} KB`;
  return `${(bytes / 1000000).toFixed(1)} MB`;
}

/** Shorten a digest to what two people can compare by eye. */
export function shortDigest(digest) {
  const [algorithm, hex] = String(digest).split(":");
  return hex ? `${algorithm} ${hex.slice(0, 4)}…${hex.slice(-4)}` : String(digest);
}

/** One or two letters for a picture. */
export function initials(name) {
  const parts = String(name).trim().split(/\s+/);
  const letters = parts.length > 1 ? [parts[0], parts[parts.length - 1]] : parts;
  return letters.map((part) => [...part][0] || "").join("").toUpperCase();
}

/** A steady tint for a name, from 1 to 5. */
export function tint(name) {
  let sum = 0;
  for (const letter of String(name)) sum = (sum * 31 + letter.codePointAt(0)) % 9973;
  return (sum % 5) + 1;
}
