// Values, numbers and times as people read them.

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const NUMBERS = /^(BIGINT|INT|DOUBLE|DECIMAL)/;

const plain = (number) => {
  if (Math.abs(number) < 1) return SMALL.format(number);
  return Math.abs(number) < 1e15 ? PLAIN.format(number) : String(number);
};
export const compact = (number) => {
  if (Math.abs(number) < 10000) return plain(number);
  return Math.abs(number) < 1e15 ? COMPACT.format(number) : number.toExponential(1);
};

export const isNumber = (type) => NUMBERS.test(type);
export const isWindow = (type) => type.startsWith("STRUCT");

/** The number of a value, or null: DECIMALs come as texts, and a DOUBLE may be NaN. */
export function numberOf(value) {
  const number = value === null || value === undefined ? NaN : Number(value);
  return Number.isFinite(number) ? number : null;
}

/** A value of a row. */
export function shown(value, type = "") {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "bigint") return value.toLocaleString("en");
  if (typeof value === "number") return plain(value);
  if (Array.isArray(value)) return `[${value.map((one) => shown(one)).join(", ")}]`;
  if (typeof value === "object") return Object.values(value).map((one) => shown(one)).join(" to ");
  if (type.startsWith("DECIMAL") && value.includes(".")) return value.replace(/\.?0+$/, "");
  return String(value);
}

/** Digits after the point of a number as it is shown. */
export const decimals = (text) => (/^-?[\d,]+\.(\d+)$/.exec(text)?.[1].length ?? 0);

const day = (date) => date.toLocaleDateString([], {
  month: "short", day: "numeric", year: date.getFullYear() === new Date().getFullYear() ? undefined : "numeric",
});

/** Time of the day, with the day if that is not the one of `beside`. */
export function clock(time, beside = Date.now()) {
  if (!time) return "";
  const date = new Date(time), text = date.toLocaleTimeString([], { hour12: false });
  return date.toDateString() === new Date(beside).toDateString() ? text : `${day(date)}, ${text}`;
}

/** When a window begins and ends. */
export const period = ({ start, end }) => `${clock(start)} to ${clock(end, start)}`;

/** 1.2 s, 3 min, 2 h. */
export function span(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

const UNITS = { us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400 };

/** Of a duration as settings have them: 500ms, 10s, 1d. */
export function seconds(duration) {
  const [, number, unit] = /^([0-9.]+)([a-z]+)$/.exec(duration) ?? [];
  return unit in UNITS ? number * UNITS[unit] : Infinity;
}
