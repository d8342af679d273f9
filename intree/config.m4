dnl Licensed under the Apache License, Version 2.0 (the "License");
dnl you may not use this file except in compliance with the License.
dnl You may obtain a copy of the License at
dnl
dnl     http://www.apache.org/licenses/LICENSE-2.0
dnl
dnl Unless required by applicable law or agreed to in writing, software
dnl distributed under the License is distributed on an "AS IS" BASIS,
dnl WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
dnl See the License for the specific language governing permissions and
dnl limitations under the License.

dnl mod_sigdefer as modules/sigdefer of httpd's source tree, where "make intree"
dnl has put its sources and nothing else.

APACHE_MODPATH_INIT(sigdefer)

dnl objects lie beside this file, whatever folder their sources are in
sigdefer_objs=
for sigdefer_file in "$srcdir/$modpath_current"/*.c \
                     "$srcdir/$modpath_current"/*/*.c; do
    sigdefer_objs="$sigdefer_objs `basename "$sigdefer_file" .c`.lo"
done

APACHE_MODULE(sigdefer, signals wait for critical sections and restarts for responses, $sigdefer_objs, , no, [
    APR_ADDTO(MOD_CFLAGS, [-fvisibility=hidden])
    APR_ADDTO(MOD_INCLUDES, [-I\$(top_srcdir)/$modpath_current])
    if test "$enable_sigdefer" = "shared"; then
        dnl nothing is to be looked up in a signal handler
        APR_ADDTO(MOD_SIGDEFER_LDADD, [-Wl,-z,relro,-z,now])
    fi
    APR_ADDTO(MOD_SIGDEFER_LDADD, [-ldl -lrt -lpthread])
])

APACHE_MODPATH_FINISH
