echo "asked $*" >>/workspace/ran.txt
