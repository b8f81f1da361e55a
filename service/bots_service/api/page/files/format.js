// Numbers and times as people read them. A dash stands for what is not known.

import { element, say } from "./dom.js";

export const UNKNOWN = "–";

const counts = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const moments = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clocks = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** 4820 -> "4,820" */
export const count = (value) => (known(value) ? counts.format(Math.round(value)) : UNKNOWN);

/** 76800 -> "76.8K", and 425.6 -> "426" */
export const compact = (value) =>
  known(value) ? short.format(Math.abs(value) < 1000 ? Math.round(value) : value) : UNKNOWN;

/** Return a text whose lines don't break between a number and its percent sign. */
export const unbroken = (text) => text.replaceAll(/(?<=\d) %/g, "\u00a0%");

/** 0.4163 -> "41.6 %". A half goes up, as in the service's sentences and in the command line. */
export const percent = (value) =>
  known(value) ? unbroken(`${(Math.round(1000 * value) / 10).toFixed(1)} %`) : UNKNOWN;

/** 0.12345 -> "0.123" */
export const decimal = (value, digits = 3) => (known(value) ? value.toFixed(digits) : UNKNOWN);

/** 0.0214 -> "+0.021" */
export const signed = (value) => `${value < 0 ? "−" : "+"}${decimal(Math.abs(value))}`;

/** 0.0012345 -> "0.00123" */
export const precise = (value) => (known(value) ? String(Number(value.toPrecision(3))) : UNKNOWN);

/** 1.6 -> "1.60×" */
export const factor = (value) => (known(value) ? `${value.toFixed(2)}×` : UNKNOWN);

/** A time in ms -> "02:05:32" */
export const clock = (ms) => clocks.format(ms);

/** A time of the wire -> "22 Nov 2026, 02:05:32" */
export const moment = (text) => moments.format(new Date(text));

/** Return an element with how long ago a time of the wire was; `tellTimes` keeps it right. */
export const ago = (text) => element("time", { datetime: text, title: moment(text) }, distance(text));

/** Update how long ago each time within an element was. */
export function tellTimes(node) {
  for (const time of node.querySelectorAll("time")) say(time, distance(time.dateTime));
}

/** How long ago a time of the wire was, roughly; or how long until it. */
export function distance(text, now = Date.now()) {
  const seconds = Math.round((now - new Date(text)) / 1000);
  const size = Math.abs(seconds);
  const words =
    size < 90
      ? `${size} s`
      : size < 5400
        ? `${Math.round(size / 60)} min`
        : size < 129600
          ? `${Math.round(size / 3600)} h`
          : `${Math.round(size / 86400)} d`;
  return seconds < 0 ? `in ${words}` : `${words} ago`;
}
