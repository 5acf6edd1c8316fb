(() => {
"use strict";
/*{{scripts}}*/
})();
