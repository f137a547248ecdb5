// Histograms of durations with logarithmic buckets: the sum of two histograms is exact, and quantiles are within 10 %
// of the measured values, whatever the distribution. Bucket 0 holds durations below 1 ms. Bucket n holds those from
// 1.15^(n-1) to 1.15^n ms, and is reported by its geometric middle, which is at most 7.3 % away. Quantiles are rounded
// to milliseconds.

/**
 * Pairs of a bucket and its count, flattened, in ascending order of buckets: `[12, 3, 40, 1]`. Buckets without values
 * are left out.
 */
export type Histogram = readonly number[];

/** The ratio of the bounds of a bucket. */
const base = 1.15;
/** The last bucket: about 40 years. Greater durations count there, so a histogram is bounded. */
const lastBucket = 200;

/** The histogram of one duration in milliseconds. */
export function histogramOf(durationMs: number): Histogram {
  return [bucketOf(durationMs), 1];
}

function bucketOf(durationMs: number): number {
  if (!(durationMs >= 1)) return 0;
  return Math.min(lastBucket, 1 + Math.floor(Math.log(durationMs) / Math.log(base)));
}

/** The histogram of the values of both. Every step of a turn adds one value, so both are merged in order. */
export function addHistograms(left: Histogram, right: Histogram): Histogram {
  if (left.length === 0) return right;
  if (right.length === 0) return left;
  const sum: number[] = [];
  let [atLeft, atRight] = [0, 0];
  while (atLeft < left.length || atRight < right.length) {
    const bucket = Math.min(left[atLeft] ?? Infinity, right[atRight] ?? Infinity);
    let count = 0;
    if (left[atLeft] === bucket) {
      count += left[atLeft + 1] ?? 0;
      atLeft += 2;
    }
    if (right[atRight] === bucket) {
      count += right[atRight + 1] ?? 0;
      atRight += 2;
    }
    sum.push(bucket, count);
  }
  return sum;
}

/**
 * The smallest value that at least this share of the values does not exceed, in milliseconds; `null`: there are no
 * values.
 */
export function quantile(histogram: Histogram, share: number): number | null {
  const total = pairs(histogram).reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return null;
  const rank = Math.max(1, Math.ceil(share * total));
  let seen = 0;
  for (const [bucket, count] of pairs(histogram)) {
    seen += count;
    if (seen >= rank) return bucket === 0 ? 0 : Math.round(base ** (bucket - 0.5));
  }
  return null;
}

function pairs(histogram: Histogram): readonly (readonly [bucket: number, count: number])[] {
  const result: (readonly [number, number])[] = [];
  for (let index = 0; index + 1 < histogram.length; index += 2) {
    result.push([histogram[index] ?? 0, histogram[index + 1] ?? 0]);
  }
  return result;
}
