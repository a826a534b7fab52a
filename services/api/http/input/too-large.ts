import { AppError } from '#core/domain/fault/app-error.ts';

const KIB = 1024;

/**
 * Returns the error for a request, or a part of one, beyond its limit, which the message names.
 * @param besides what does not count towards it.
 * @param what the name of the part.
 */
export function tooLarge(bytesMax: number, besides = '', what = 'Request'): AppError {
  const [size, unit] = bytesMax < KIB * KIB ? [bytesMax / KIB, 'KiB'] : [bytesMax / KIB / KIB, 'MiB'];
  return new AppError('payload_too_large', {
    message: `${what} is too large: it may have ${size} ${unit}${besides}`,
  });
}
