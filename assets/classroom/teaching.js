// Whether this browser leads a class. It is a file of its own, so that the page knows it without fetching the
// other scripts of the classroom.

import { kept } from "../shared/memory.js";

export const KEPT = "specdec.class.lecturer";

export const isTeaching = () => kept(KEPT) !== null;
