import { AppError } from '#core/domain/fault/app-error.ts';
import { lineRangesText, type LineRange } from '#core/domain/text/line-ranges.ts';
import { toAppError } from '../http/errors.ts';

/**
 * Returns the error of an import that failed midway: it names the lines that are stored and those that may be.
 * @param stored undefined: none.
 * @param trying the lines that were being stored.
 */
export function brokenOffImport(error: unknown, stored: LineRange | undefined, trying: LineRange): AppError {
  const fault = toAppError(error);
  const done = stored === undefined ? '' : lineRangesText([stored]);
  const open = lineRangesText([trying]);
  const detail = (rule: string, message: string) => ({ field: 'lines', rule, message });
  return new AppError(fault.code, {
    message: `${fault.message}. ${done === '' ? 'Of the import no line is known to be stored' : `Of the import the right ones of the lines ${done} are stored`}, and those of ${open} may be; send it again`,
    details: [
      ...(done === '' ? [] : [detail('stored', `Stored: ${done}`)]),
      detail('unknown', `May be stored: ${open}`),
      detail('rest', 'All others are not stored'),
    ],
    cause: error,
    ...(fault.retryAfter === undefined ? {} : { retryAfter: fault.retryAfter }),
  });
}
