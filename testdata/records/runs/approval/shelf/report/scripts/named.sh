echo "named $*" >>/workspace/ran.txt
